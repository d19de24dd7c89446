#!/usr/bin/env python3
"""What eviction and smaller numbers cost in quality: perplexity of texts that are forced upon the
decode after a prompt, and passkeys found again. Writes the tables and the plot of QUALITY.md.

Texts are any files, also gzipped. What every Debian 12 with deploy/packages.txt has:

  python3 tests/bench/quality.py --binary build/release/tests/bench/quality \\
    --model "$(deploy/fetch_model.sh)" /usr/share/common-licenses/{Apache-2.0,GPL-3,MPL-2.0} \\
    /usr/share/cmake-3.25/Help/manual/cmake-{buildsystem,packages,presets,toolchains}.7.rst \\
    /usr/share/cmake-3.25/Help/manual/{cmake,ctest}.1.rst /usr/share/doc/dpkg/spec/triggers.txt

Perplexity does not depend on how busy the machine is. Results are kept in a file, so that studies
can be run one by one: --studies dtypes --kv_cache_dtypes bf16 int4 adds to what is there, and
--studies with nothing after it only writes the report again.
"""

import argparse
import gzip
import json
import pathlib
import subprocess
import sys

import quality_report

HERE = pathlib.Path(__file__).resolve().parent
FILLER = (
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
SINKS = (0, 1, 4, 8, 16)


def read_text(path):
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    name = pathlib.Path(path).name.removesuffix(".gz")
    return {"name": name, "text": data.decode(errors="replace")}


def eviction(name, policy, **fields):
    return {"name": name, "policy": policy, **fields}


FULL = eviction("FULL", "full")


def percent(ratio):
    return f"{100 * ratio:g} %"


def studies(arguments):
    """name: list of (engine options, task, evictions)."""
    perplexity = {
        "perplexity": {
            "prompt_tokens": arguments.prompt_tokens,
            "answer_tokens": arguments.answer_tokens,
            "passages": arguments.passages,
            "texts": [read_text(path) for path in arguments.texts],
        }
    }
    passkey = {
        "passkey": {
            "prompt_tokens": arguments.passkey_tokens,
            "depths": [0.1, 0.3, 0.5, 0.7, 0.9],
            "keys": [71423, 50398, 20981, 68175],
            "filler": FILLER,
            "max_tokens": 16,
        }
    }
    ratio = arguments.budget_ratio
    budget = round(ratio * (arguments.prompt_tokens + arguments.answer_tokens))
    exact = {"weight_dtype": "f32", "kv_cache_dtype": "f32"}
    default = {"weight_dtype": "auto", "kv_cache_dtype": "bf16"}
    audit = {"audit": True} if arguments.audit else {}

    def h2o(name, **fields):
        return eviction(name, "h2o", budget_tokens=budget, **fields)

    return {
        "policies": [
            (
                exact,
                perplexity,
                [FULL]
                + [
                    eviction(policy.upper(), policy, budget_tokens=budget)
                    for policy in ("h2o", "streaming", "window")
                ],
            )
        ],
        "budgets": [
            (
                default,
                perplexity,
                [FULL]
                + [
                    eviction(f"{policy.upper()} {percent(share)}", policy, budget_ratio=share,
                             **audit)
                    for policy in ("h2o", "streaming")
                    for share in arguments.budgets
                ],
            )
        ],
        "splits": [
            (
                default,
                perplexity,
                [FULL]
                + [
                    h2o(f"{percent(share)} recent", recent_tokens=round(share * (budget - 4)),
                        sink_tokens=4)
                    for share in SHARES
                ],
            )
        ],
        "sinks": [
            (
                default,
                perplexity,
                [FULL]
                + [h2o(f"H2O, {sinks} sinks", sink_tokens=sinks) for sinks in SINKS]
                + [
                    eviction(f"STREAMING, {sinks} sinks", "streaming", budget_tokens=budget,
                             sink_tokens=sinks)
                    for sinks in SINKS
                ],
            )
        ],
        "dtypes": [
            (
                {"weight_dtype": "f32", "kv_cache_dtype": dtype},
                perplexity,
                [FULL, h2o("H2O")],
            )
            for dtype in arguments.kv_cache_dtypes
        ],
        "weights": [
            ({"weight_dtype": dtype, "kv_cache_dtype": "f32"}, perplexity, [FULL])
            for dtype in ("f32", "bf16", "int8", "int4")
        ],
        "passkey": [
            (
                default,
                passkey,
                [FULL]
                + [
                    eviction(f"{policy.upper()} {percent(share)}", policy, budget_ratio=share,
                             **audit)
                    for policy in ("h2o", "streaming")
                    for share in (0.2, 0.5)
                ],
            )
        ],
    }


def run(arguments, name, options, task, evictions):
    """Yields one result a line of the binary's output."""
    spec = {
        "engine": {
            "model": arguments.model,
            "kv_cache_bytes": 2**30,
            "max_num_seqs": 16,
            **options,
        },
        "evictions": evictions,
        **task,
    }
    process = subprocess.Popen(
        [arguments.binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdin.write(json.dumps(spec))
    process.stdin.close()
    for line in process.stdout:
        yield {"study": name, **json.loads(line)}
    if process.wait() != 0:
        sys.exit(f"study {name} failed")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--binary", default="build/release/tests/bench/quality")
    parser.add_argument("--model", default="")
    parser.add_argument(
        "--studies", nargs="*",
        default=["policies", "budgets", "splits", "sinks", "dtypes", "weights", "passkey"],
    )
    parser.add_argument("--prompt_tokens", type=int, default=1024)
    parser.add_argument("--answer_tokens", type=int, default=192)
    parser.add_argument("--passages", type=int, default=2, help="of each text")
    parser.add_argument("--budget_ratio", type=float, default=0.2, help="of all but 'budgets'")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5]
    )
    parser.add_argument(
        "--kv_cache_dtypes", nargs="+", default=["f32", "bf16", "int8", "int4", "kivi2"]
    )
    parser.add_argument("--passkey_tokens", type=int, default=600)
    parser.add_argument(
        "--audit", action=argparse.BooleanOptionalAction, default=True, help="measure recall, too"
    )
    parser.add_argument("--results", type=pathlib.Path, default="build/quality.jsonl")
    parser.add_argument("--report", type=pathlib.Path, default=HERE / "QUALITY.md")
    arguments = parser.parse_args()

    known = studies(arguments)
    for name in arguments.studies:
        if name not in known:
            parser.error(f"no study {name}; there are {', '.join(known)}")
        if name != "passkey" and not arguments.texts:
            parser.error(f"study {name} needs texts")
        with arguments.results.open("a") as results:
            for options, task, evictions in known[name]:
                for result in run(arguments, name, options, task, evictions):
                    results.write(json.dumps(result) + "\n")
                    results.flush()
                print(f"{name}: {options}", file=sys.stderr)
    command = [line[2:] for line in __doc__.splitlines() if line.startswith("  ")]
    quality_report.write(arguments.results, arguments.report, "\n".join(command))


if __name__ == "__main__":
    main()
