"""What was measured, kept in a JSON file, and the part of RESULTS.md that is made of it."""

import json
import statistics

BEGIN = "<!-- compare.sh: begin -->"
END = "<!-- compare.sh: end -->"


class Results:
    """One entry a workload and peer: the pairs of the last time that both ran. Without a path
    nothing is kept."""

    def __init__(self, path):
        self.path = path
        self.entries = json.loads(path.read_text()) if path and path.exists() else {}

    def add(self, workload, peer, entry):
        self.entries.setdefault(workload, {})[peer] = entry
        if not self.path:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.entries, indent=2) + "\n")

    def markdown(self, workloads):
        """Tables of every entry, in the order of `workloads`."""
        entries = [
            (name, peer, entry)
            for name in workloads
            for peer, entry in self.entries.get(name, {}).items()
        ]
        if not entries:
            return "Nothing has been measured yet."
        return "\n\n".join(
            (self._strongest(entries), self._all(entries), _versions(entries), _commands(entries))
        )

    @staticmethod
    def _strongest(entries):
        lines = [
            "| workload | strongest peer | Hydrant | peer | ratio |",
            "|---|---|---|---|---|",
        ]
        for name in dict.fromkeys(name for name, _, _ in entries):
            peers = {
                peer: entry
                for workload, peer, entry in entries
                if workload == name and entry.get("theirs") and not entry["ours_too"]
            }
            if not peers:
                continue
            peer = min(peers, key=lambda peer: _ratio(peers[peer]))
            entry = peers[peer]
            lines.append(
                f"| {name} | {peer} | {statistics.median(entry['ours']):.1f}"
                f" | {statistics.median(entry['theirs']):.1f} | **{_ratio(entry):.2f}** |"
            )
        return "\n".join(lines)

    @staticmethod
    def _all(entries):
        lines = [
            "All of them; the ratio is the median of the pairs':",
            "",
            "| workload | peer | unit | Hydrant | peer | ratio | of each pair | | on | commit |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for name, peer, entry in entries:
            if not entry.get("theirs"):
                failure = f"| {name} | {peer} | | | | | | {entry['failure']} | {entry['date']} | |"
                lines.append(failure)
                continue
            pairs = ", ".join(f"{ours / theirs:.2f}" for ours, theirs in _pairs(entry))
            notes = "; ".join(
                f"{who}: {note}"
                for who, note in (("Hydrant", entry["our_note"]), ("peer", entry["their_note"]))
                if note
            )
            lines.append(
                f"| {name} | {peer} | {entry['unit']} | {statistics.median(entry['ours']):.1f}"
                f" | {statistics.median(entry['theirs']):.1f} | {_ratio(entry):.2f} | {pairs}"
                f" | {notes} | {entry['date']} | {entry['commit'].removeprefix('commit ')} |"
            )
        return "\n".join(lines)


def _pairs(entry):
    return list(zip(entry["ours"], entry["theirs"]))


def _ratio(entry):
    return statistics.median(ours / theirs for ours, theirs in _pairs(entry))


def _versions(entries):
    versions = {}
    for _, peer, entry in entries:
        if entry.get("theirs"):
            for who, version in (("Hydrant", entry["our_version"]), (peer, entry["their_version"])):
                versions.setdefault(who, {})[version] = None
    machines = dict.fromkeys(entry["machine"] for _, _, entry in entries)
    return "\n".join(
        [f"Machine: {'; '.join(machines)}. Versions:", ""]
        + [f"- {who}: {'; '.join(of_who)}" for who, of_who in versions.items()]
    )


def _commands(entries):
    lines = ["<details><summary>Command lines</summary>", "", "```"]
    seen = set()
    for name, _, entry in entries:
        for command in entry.get("commands", ()):
            if (name, command) not in seen:
                seen.add((name, command))
                lines.append(f"{name}: {command}")
    return "\n".join([*lines, "```", "", "</details>"])


def replace_between_markers(path, markdown):
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path} has no '{BEGIN}' and '{END}'")
    path.write_text(f"{before}{BEGIN}\n\n{markdown}\n\n{END}{after}")
