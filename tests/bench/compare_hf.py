#!/usr/bin/env python3
"""Hydrant over gRPC against Hugging Face transformers in bf16, same model, same prompts, in
alternating pairs; prints output tokens per second of whole runs, prefill included, and the ratio.

The server is loaded throughout and idles while the peer runs. Needs tests/run.sh's environment, and
a Python with torch, transformers and gguf for the peer:

  HYDRANT_BINARY=build/ci/hydrant HYDRANT_E2E_MODEL="$(deploy/fetch_model.sh)" \\
    HYDRANT_TEST_DATA=tests/data build/venv/bin/python tests/bench/compare_hf.py --hf_python=PATH
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from hydrant_client import Client  # noqa: E402
from server_process import MODEL, Server  # noqa: E402

# name: prompt tokens, generated tokens, concurrency
WORKLOADS = {
    "chat-1": (128, 128, 1),
    "chat-4": (128, 128, 4),
    "chat-16": (128, 128, 16),
    "chat-64": (128, 128, 64),
    "prefill-2k": (2048, 1, 1),
}


def prompts(tokens, count, seed):
    """Distinct random ids, so that no prefix cache can help."""
    chooser = random.Random(seed)
    return [[chooser.randrange(100, 49000) for _ in range(tokens)] for _ in range(count)]


def run_hydrant(client, batch, max_tokens):
    request = {
        "sampling": {"temperature": 0.0},
        "stopping": {"max_tokens": max_tokens, "ignore_eos": True},
    }
    counts = []

    def one(ids):
        answer = client.generate(token_ids={"ids": ids}, **request)
        counts.append(answer.finished.usage.completion_tokens)

    threads = [threading.Thread(target=one, args=(ids,)) for ids in batch]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    assert counts == [max_tokens] * len(batch), counts
    return seconds


class Peer:
    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, str(HERE / "hf_worker.py"), MODEL, str(os.cpu_count())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = json.loads(self.process.stdout.readline())["ready"]

    def run(self, batch, max_tokens):
        self.process.stdin.write(json.dumps({"prompts": batch, "max_tokens": max_tokens}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["seconds"]


parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--hf_python", required=True)
parser.add_argument("--pairs", type=int, default=3)
parser.add_argument("--workloads", default="chat-1,chat-4,chat-16")
parser.add_argument("flags", nargs="*", help="flags of `hydrant serve`, after --")
arguments = parser.parse_args()

peer = Peer(arguments.hf_python)
with Server(MODEL, *arguments.flags) as server:
    client = Client(server.address)
    print(f"torch {peer.version}, {os.cpu_count()} cores; output tokens/s, medians")
    print("| workload | Hydrant | HF bf16 | ratio (median of pairs) | ratios |")
    print("|---|---|---|---|---|")
    for name in arguments.workloads.split(","):
        tokens, max_tokens, concurrency = WORKLOADS[name]
        run_hydrant(client, prompts(tokens, concurrency, 0), max_tokens)
        peer.run(prompts(tokens, concurrency, 0), min(max_tokens, 8))
        ours, theirs = [], []
        for pair in range(1, arguments.pairs + 1):
            batch = prompts(tokens, concurrency, pair)
            ours.append(run_hydrant(client, batch, max_tokens))
            theirs.append(peer.run(batch, max_tokens))
        total = concurrency * max_tokens
        ratios = [b / a for a, b in zip(ours, theirs)]
        print(
            f"| {name} | {total / statistics.median(ours):.1f}"
            f" | {total / statistics.median(theirs):.1f}"
            f" | {statistics.median(ratios):.2f}"
            f" | {', '.join(f'{ratio:.2f}' for ratio in ratios)} |",
            flush=True,
        )
peer.process.stdin.close()
