"""The tables of QUALITY.md out of the results that quality.py keeps."""

import json
import math
import statistics

import quality_plot

INTRODUCTION = """# Quality

What eviction and smaller numbers cost {model}. Written by [quality.py](quality.py); the measuring \
is [quality.cc](quality.cc)'s, which runs the engine.

```
{command}
```

**Perplexity** is teacher-forced: a prompt is read whole, compacted to the budget, and the tokens \
that follow it in the text are then forced upon the decode, under the policy. Loss is relative to \
FULL on the same passages; ± is the standard error of the mean over passages (of the difference in \
log-likelihood, so what makes one text harder than another is not in it). A budget in percent is of \
prompt and answer. **Recall** is the share of the full cache's attention that falls on tokens still \
held, over the decode steps of the answer (`usage.recall`).
"""


class Runs:
    """Results by eviction and passage. A repeated run replaces the earlier one."""

    def __init__(self, lines):
        self.by_name = {}
        for line in lines:
            passages = self.by_name.setdefault(line["eviction"], {})
            passages[line["text"], line["passage"]] = line

    def names(self):
        return list(self.by_name)

    def passages(self):
        """Those that every eviction has; a run may have been cut short."""
        return [p for p in self.by_name["FULL"] if all(p in of for of in self.by_name.values())]

    def nll(self, name):
        return statistics.fmean(self.by_name[name][p]["nll"] for p in self.passages())

    def perplexity(self, name):
        return math.exp(self.nll(name))

    def loss(self, name, base):
        """Of perplexity, relative, with its standard error."""
        return relative_loss(
            [self.by_name[name][p]["nll"] - base[p]["nll"] for p in self.passages()]
        )

    def recall(self, name):
        """Mean, and the mean over passages of the 5th percentile; None when not measured."""
        found = [r["recall"] for r in self.by_name[name].values() if "recall" in r]
        if not found:
            return None
        return tuple(statistics.fmean(recall[key] for recall in found) for key in ("mean", "p5"))


def runs_by(key, lines):
    by_value = {}
    for line in lines:
        by_value.setdefault(line[key], []).append(line)
    return {value: Runs(of_value) for value, of_value in by_value.items()}


def relative_loss(differences):
    factor = math.exp(statistics.fmean(differences))
    error = 0
    if len(differences) > 1:
        error = statistics.stdev(differences) / math.sqrt(len(differences))
    return factor - 1, factor * error


def percent(value, digits=1):
    return f"{100 * value:.{digits}f} %"


def loss_cell(loss, digits=1):
    return f"{100 * loss[0]:+.{digits}f} % ± {100 * loss[1]:.{digits}f}"


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def describe(lines):
    """One sentence on what a study measured."""
    passages = {(line["text"], line["passage"]) for line in lines}
    precision = []
    for key, kind in (("weight_dtype", "weights"), ("kv_cache_dtype", "KV")):
        dtypes = {line[key] for line in lines}
        precision += [f"{dtype} {kind}" for dtype in dtypes if len(dtypes) == 1]
    return (
        f"{len(passages)} passages of {len({text for text, _ in passages})} texts, "
        f"{lines[0]['prompt_tokens']:,} + {lines[0]['tokens']} tokens each; "
        f"{', '.join(precision)}"
    )


def loss_table(runs, kind):
    full = runs.by_name["FULL"]
    rows = []
    for name in runs.names():
        recall = runs.recall(name)
        rows.append(
            [
                name,
                f"{runs.perplexity(name):.2f}",
                "" if name == "FULL" else loss_cell(runs.loss(name, full)),
                percent(recall[0]) if recall else "",
                percent(recall[1]) if recall else "",
            ]
        )
    header = [kind, "perplexity", "loss", "recall, mean", "recall, p5"]
    if not any(row[3] for row in rows):
        header, rows = header[:3], [row[:3] for row in rows]
    return table(header, rows)


def policies(lines):
    runs = Runs(lines)
    names = runs.names()
    ordered = sum(
        nlls == sorted(nlls)
        for nlls in ([runs.by_name[n][p]["nll"] for n in names] for p in runs.passages())
    )
    rows = [
        [text, number + 1]
        + [f"{math.exp(runs.by_name[name][text, number]['nll']):.2f}" for name in names]
        for text, number in runs.passages()
    ]
    budget = max(line["budget_tokens"] for line in lines)
    return (
        f"## Policies, with {budget} tokens kept\n\n{describe(lines)}.\n\n"
        + loss_table(runs, "policy")
        + f"\nIn this order, {' < '.join(names)}, are {ordered} of {len(rows)} passages:\n\n"
        + table(["text", "passage", *names], rows)
    )


def budgets(lines):
    return (
        f"## Budgets\n\n{describe(lines)}.\n\n![Loss and recall by budget](quality.svg)\n\n"
        + loss_table(Runs(lines), "policy, budget")
    )


def splits(lines):
    budget = max(line["budget_tokens"] for line in lines)
    runs = Runs(lines)
    best = min((name for name in runs.names() if name != "FULL"), key=runs.nll)
    return (
        f"## How much of H2O's budget is recent\n\n{budget} tokens, 4 of them sinks; the rest is "
        f"split between heavy and recent. {describe(lines)}.\n\n"
        + loss_table(runs, "share")
        + f"\nThe least is lost with {best}; the default is half.\n"
    )


def sinks(lines):
    budget = max(line["budget_tokens"] for line in lines)
    return (
        f"## Sinks\n\n{budget} tokens; H2O's are half recent. {describe(lines)}.\n\n"
        + loss_table(Runs(lines), "policy")
    )


def dtypes(lines):
    runs = runs_by("kv_cache_dtype", lines)
    rows = []
    for dtype, run in runs.items():
        row = [dtype]
        for name in ("FULL", "H2O"):
            row.append(f"{run.perplexity(name):.3f}")
            base = runs.get("bf16", run)
            row.append("" if base is run else loss_cell(run.loss(name, base.by_name[name]), 2))
        rows.append(row)
    budget = max(line["budget_tokens"] for line in lines)
    return (
        f"## Numbers in the KV cache\n\nH2O keeps {budget} tokens. {describe(lines)}.\n\n"
        + table(["KV dtype", "FULL", "to bf16", "H2O", "to bf16"], rows)
    )


def weights(lines):
    runs = runs_by("weight_dtype", lines)
    exact = runs["f32"].by_name["FULL"]
    rows = [
        [
            dtype,
            f"{run.perplexity('FULL'):.3f}",
            "" if dtype == "f32" else loss_cell(run.loss("FULL", exact), 2),
        ]
        for dtype, run in runs.items()
    ]
    return (
        "## Weights\n\nThe file's own numbers are read exactly; what is lost is lost in packing them "
        f"and in rounding activations. {describe(lines)}, the full cache.\n\n"
        + table(["weights", "perplexity", "loss"], rows)
    )


def passkey(lines):
    runs = {}
    for line in lines:
        runs.setdefault(line["eviction"], {})[line["depth"], line["key"]] = line
    depths = sorted({line["depth"] for line in lines})
    rows = []
    for name, results in runs.items():
        row = [name]
        for depth in depths:
            found = [r["found"] for (at, _), r in results.items() if at == depth]
            row.append(f"{sum(found)} of {len(found)}")
        recalls = [r["recall"]["mean"] for r in results.values() if "recall" in r]
        row.append(percent(statistics.fmean(recalls)) if recalls else "")
        rows.append(row)
    header = ["policy", *(f"at {percent(depth, 0)}" for depth in depths), "recall, mean"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return (
        "## Passkeys\n\nA number of five digits within a prompt of about "
        f"{round(statistics.fmean(line['prompt_tokens'] for line in lines), -1):,.0f} tokens of "
        "filler, asked for at its end: how often the greedy answer holds it, by how far into the "
        "filler it stands.\n\n" + table(header, rows)
    )


SECTIONS = {
    "policies": policies,
    "budgets": budgets,
    "splits": splits,
    "sinks": sinks,
    "dtypes": dtypes,
    "weights": weights,
    "passkey": passkey,
}


def write(results, report, command):
    by_study = {}
    for line in map(json.loads, results.read_text().splitlines()):
        by_study.setdefault(line["study"], []).append(line)
    sections = [section(by_study[name]) for name, section in SECTIONS.items() if name in by_study]
    models = {line["model"] for lines in by_study.values() for line in lines}
    introduction = INTRODUCTION.format(model=" and ".join(sorted(models)), command=command)
    report.write_text("\n".join([introduction, *sections]))
    if "budgets" in by_study:
        runs = Runs(by_study["budgets"])
        report.with_name("quality.svg").write_text(quality_plot.draw(runs))
