"""Hydrant against its peers on one machine; started by tests/bench/compare.sh, which see."""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import time

from peers import Peers
from results import Results, replace_between_markers
from subjects import Failed, Hydrant
from workloads import WORKLOADS

ROOT = pathlib.Path(__file__).resolve().parents[3]


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="compare.sh",
        description="Runs each workload by Hydrant and by each peer in turn, in rounds; one runs at"
        " a time, each in processes of its own. Prints tables and writes them into RESULTS.md.",
    )
    parser.add_argument("--hydrant", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument(
        "--workloads", default=",".join(WORKLOADS), help="of %(default)s (default: all)"
    )
    parser.add_argument(
        "--peers", default=",".join(Peers.DEFAULT),
        help="names, or how they begin (llama.cpp); also: llama.cpp-q4_0, hf-f32. Default: "
        "%(default)s",
    )  # fmt: skip
    parser.add_argument("--pairs", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument(
        "--quick", action="store_true",
        help="tiny workloads, to see that everything runs; nothing is written",
    )  # fmt: skip
    parser.add_argument(
        "--peers_dir", type=pathlib.Path, default=ROOT / "build" / "peers",
        help="where peers are installed (default: build/peers)",
    )  # fmt: skip
    parser.add_argument(
        "--data", type=pathlib.Path, default=ROOT / "build" / "compare.json",
        help="what was measured: a run replaces the entries of its workloads and peers, and the "
        "tables show all (default: build/compare.json)",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=pathlib.Path, default=ROOT / "tests" / "bench" / "RESULTS.md",
        help="file that the tables go into, between its markers (default: tests/bench/RESULTS.md)",
    )  # fmt: skip
    parser.add_argument(
        "--serve_flag", action="append", default=[], metavar="FLAG",
        help="a flag for `hydrant serve`, as --serve_flag=--weight_dtype=int8; may be repeated",
    )  # fmt: skip
    arguments = parser.parse_args()
    arguments.workloads = arguments.workloads.split(",")
    for name in arguments.workloads:
        if name not in WORKLOADS:
            parser.error(f"--workloads: '{name}' is none of {', '.join(WORKLOADS)}")
    if arguments.pairs < 1:
        parser.error("--pairs: at least 1")
    return parser, arguments


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{len(os.sched_getaffinity(0))} cores of {cpu[1] if cpu else os.uname().machine}"


def commit():
    done = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return f"commit {done.stdout.strip() or 'unknown'}"


def without_paths(commands, arguments):
    """Command lines that say the same on another machine."""
    names = {
        str(ROOT) + "/": "",
        str(arguments.peers_dir.resolve()): "PEERS",
        str(arguments.hydrant): "hydrant",
        str(arguments.model.parent): "MODELS",
    }
    for path, name in names.items():
        commands = [command.replace(path, name) for command in commands]
    return list(dict.fromkeys(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", c) for c in commands))


class Comparison:
    def __init__(self, arguments, peers):
        self.arguments = arguments
        self.hydrant = Hydrant(arguments.hydrant, arguments.model, flags=arguments.serve_flag)
        self.peers = peers
        self.begin = time.monotonic()

    def run(self, workload):
        """An entry a peer, of the rounds in which both sides ran."""
        subjects = [self.hydrant] + [
            peer
            for peer in self.peers
            if (workload.kept_tokens or not isinstance(peer, Hydrant))
            and (peer.isa_can_be_chosen or not workload.isa)
        ]
        runs = {subject.name: [] for subject in subjects}
        failures = {}
        for number in range(self.arguments.pairs):
            # The other way round every second time, so that a drift favours nobody.
            for subject in subjects if number % 2 == 0 else reversed(subjects):
                if subject.name in failures:
                    continue
                try:
                    run = subject.run(workload)
                except Failed as failure:
                    if subject is self.hydrant:
                        raise SystemExit(f"{workload.name}: {failure}") from None
                    failures[subject.name] = str(failure).splitlines()[-1]
                    self.say(f"{workload.name}: {subject.name} failed: {failure}")
                    continue
                runs[subject.name].append(run)
                self.say(
                    f"{workload.name}, round {number + 1}: {subject.name}"
                    f" {run.tokens_per_second:.1f} {workload.unit} {run.note}"
                )
        ours = runs[self.hydrant.name]
        return {
            peer.name: self.entry(workload, peer, ours, runs[peer.name], failures.get(peer.name))
            for peer in subjects[1:]
        }

    def entry(self, workload, peer, ours, theirs, failure):
        common = {
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "ours_too": isinstance(peer, Hydrant),
        }
        if failure:
            return common | {"failure": failure}
        return common | {
            "unit": workload.unit,
            "commit": commit(),
            "ours": [run.tokens_per_second for run in ours],
            "theirs": [run.tokens_per_second for run in theirs],
            "our_version": ours[-1].version,
            "their_version": theirs[-1].version,
            "our_note": ours[-1].note,
            "their_note": theirs[-1].note,
            "commands": without_paths(ours[-1].commands + theirs[-1].commands, self.arguments),
        }

    def say(self, text):
        print(f"[{time.monotonic() - self.begin:7.0f} s] {text}", file=sys.stderr, flush=True)


def main():
    parser, arguments = parse_arguments()
    peers = Peers(arguments.peers_dir.resolve(), arguments.model, arguments.hydrant)
    try:
        names = peers.select(arguments.peers.split(","))
    except KeyError as unknown:
        parser.error(f"--peers: {unknown} is none of {', '.join(peers.makers)}")
    comparison = Comparison(arguments, [peers.make(name) for name in names])
    results = Results(None if arguments.quick else arguments.data)
    for name in arguments.workloads:
        workload = WORKLOADS[name].shortened() if arguments.quick else WORKLOADS[name]
        for peer, entry in comparison.run(workload).items():
            results.add(name, peer, entry)
    tables = results.markdown(WORKLOADS)
    print(tables)
    if not arguments.quick:
        replace_between_markers(arguments.results, tables)


if __name__ == "__main__":
    main()
