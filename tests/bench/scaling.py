#!/usr/bin/env python3
"""How cost grows: per token against the length of a sequence, per step against the batch, and the
time from start to serving. Starts its own servers; prints Markdown tables.

  tests/bench/random_checkpoint.py --shape=135m --context=65536 /tmp/long
  tests/bench/scaling.py --binary=build/release/hydrant --model="$(deploy/fetch_model.sh)" \\
    --long_model=/tmp/long
"""

import argparse
import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

POLICIES = {
    "FULL": {"policy": "FULL"},
    "H2O 1,024, PER_CHUNK": {
        "policy": "H2O",
        "budget_tokens": 1024,
        "prefill_eviction": "PER_CHUNK",
    },
}


@contextlib.contextmanager
def server(args, model, *flags):
    """Yields its address and the seconds until it was serving."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    start = time.perf_counter()
    process = subprocess.Popen(
        [args.binary, "serve", f"--model={model}", f"--listen={address}", "--metrics_listen=off",
         *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        for line in process.stderr:
            if "serving" in line:
                break
        else:
            raise SystemExit(f"{args.binary} serve ended with {process.wait()}")
        yield address, time.perf_counter() - start
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


def bench(args, address, *flags):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [args.binary, "bench", f"--server={address}", f"--json={report}", *flags]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.loads(report.read_text())


def one_request(args, address, **request):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as trace:
        trace.write(json.dumps(request))
        trace.flush()
        return bench(args, address, f"--trace={trace.name}", "--warmup=0", "--concurrency=1")


def lengths(args):
    print("| policy | prompt tokens | prefill, ms a token | decode, ms a token |")
    print("|---|---|---|---|")
    for name, eviction in POLICIES.items():
        with server(args, args.long_model, "--kv_cache_bytes=2GB") as (address, _):
            for length in [1024, 2048, 4096, 8192, 16384, 32768]:
                report = one_request(
                    args, address, prompt_tokens=length, max_tokens=48, eviction=eviction
                )
                prefill = 1e3 * report["ttft_seconds"]["p50"] / length
                decode = 1e3 * report["itl_seconds"]["p50"]
                print(f"| {name} | {length:,} | {prefill:.2f} | {decode:.1f} |", flush=True)


def batches(args):
    print("| concurrency | output tokens/s | gap between tokens, median, ms |")
    print("|---|---|---|")
    with server(args, args.model, "--max_num_seqs=256") as (address, _):
        for concurrency in [1, 2, 4, 8, 16, 32, 64, 128, 256]:
            report = bench(
                args, address, f"--concurrency={concurrency}", f"--requests={concurrency}",
                "--prompt_tokens=32", "--max_tokens=96", "--eviction=full",
            )  # fmt: skip
            rate, gap = report["output_tokens_per_second"], report["itl_seconds"]["p50"]
            print(f"| {concurrency} | {rate:.0f} | {1e3 * gap:.1f} |", flush=True)


def start_up(args):
    seconds = []
    for _ in range(5):
        with server(args, args.model) as (_, took):
            seconds.append(took)
    print("seconds to serving:", ", ".join(f"{s:.2f}" for s in seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--long_model", required=True, help="with a context above 32,816 tokens")
    studies = {"lengths": lengths, "batches": batches, "start_up": start_up}
    parser.add_argument("--studies", nargs="+", choices=studies, default=list(studies))
    args = parser.parse_args()
    for study in args.studies:
        studies[study](args)
        print()


if __name__ == "__main__":
    main()
