#!/usr/bin/env python3
"""How a long prompt changes the pace of streams that decode: the gaps between their tokens before it
comes, and from then until its first token.

  hydrant serve --model="$(deploy/fetch_model.sh)" &
  build/venv/bin/python tests/bench/pace.py --server=localhost:50051

The environment is that of the end-to-end tests (tests/e2e/requirements.txt).
"""

import argparse
import pathlib
import random
import statistics
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import grpc  # noqa: E402
from hydrant_client import Client  # noqa: E402


def random_prompt(length, seed):
    rng = random.Random(seed)
    return {"ids": [rng.randrange(1000, 30000) for _ in range(length)]}


class Reader(threading.Thread):
    """One stream that goes on until it is stopped, with the time of each token."""

    def __init__(self, client, prompt_tokens, seed):
        super().__init__(daemon=True)
        self.call = client.stream(
            token_ids=random_prompt(prompt_tokens, seed),
            sampling={"temperature": 0},
            stopping={"max_tokens": 4000, "ignore_eos": True},
            eviction={"policy": "H2O", "budget_tokens": 512},
        )
        self.times = []
        self.error = None
        self.start()

    def run(self):
        try:
            for response in self.call:
                if response.WhichOneof("event") == "delta":
                    self.times.append(time.perf_counter())
        except grpc.RpcError as error:
            self.error = error

    def gaps(self, start, end):
        """Of the tokens that came between the two times."""
        times = [t for t in self.times if start <= t <= end]
        return [b - a for a, b in zip(times, times[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--server", default="localhost:50051")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--prompt_tokens", type=int, default=128, help="of each stream")
    parser.add_argument("--long_prompt_tokens", type=int, default=3840)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    client = Client(args.server)
    readers = [Reader(client, args.prompt_tokens, seed) for seed in range(args.streams)]
    while any(len(reader.times) < 20 for reader in readers):
        time.sleep(0.05)
        for reader in readers:
            if reader.error:
                raise reader.error
    print("  before, ms:      during, ms:      worst during /  first token of")
    print(" median   worst   median   worst   median before   the prompt, s")
    for repeat in range(args.repeats):
        before = time.perf_counter()
        time.sleep(3)
        sent = time.perf_counter()
        client.generate(
            token_ids=random_prompt(args.long_prompt_tokens, 1000 + repeat),
            sampling={"temperature": 0},
            stopping={"max_tokens": 1, "ignore_eos": True},
            eviction={"policy": "FULL"},
        )
        answered = time.perf_counter()
        time.sleep(0.5)
        usual = [gap for r in readers for gap in r.gaps(before, sent)]
        median = statistics.median(usual)
        # The gap that the prompt's last chunk makes ends after its token.
        during = [gap for r in readers for gap in r.gaps(sent - 2 * median, answered + 2 * median)]
        print(
            f"{1e3 * median:7.1f}{1e3 * max(usual):8.1f}{1e3 * statistics.median(during):9.1f}"
            f"{1e3 * max(during):8.1f}{max(during) / median:16.2f}{answered - sent:16.2f}"
        )
    for reader in readers:
        reader.call.cancel()
        reader.join()


if __name__ == "__main__":
    main()
