"""Soaks a server: processes of clients that do everything, well and badly, and are killed.

    soak.py [--duration SECONDS] [--seed N] [--clients N] [--rss_allowance_mb N]

with the environment of the other tests (HYDRANT_BINARY, HYDRANT_E2E_MODEL, HYDRANT_TEST_DATA). What
is asked, and who is killed, is a function of the seed; when it happens is the machine's. After a
third of the time the load stops, and what memory the idle server then has is what it must have at
the end; its threads and descriptors, what it had before the load.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from server_process import TINY_MODEL, Server, eventually

HERE = pathlib.Path(__file__).parent
# Small, so that everything runs short: batch, queue, KV, audits, buffers, tenants.
FLAGS = (
    "--kv_cache_bytes=1MB", "--max_num_seqs=8", "--max_queue=16", "--max_batched_tokens=64",
    "--max_message_bytes=256KiB", "--stream_buffer_bytes=1MiB", "--audit_bytes=256KB",
    "--audit_rate=0.1", "--queue_timeout=2", "--tenant_metadata_key=tenant",
    "--tenant_max_requests=24", "--log_format=json",
)  # fmt: skip
# By which libraries' pools may grow; far fewer than there are requests or connections.
LIBRARIES_THREADS = 2 * os.cpu_count() + 16
PROBES = [
    {"text": "the fountain", "stopping": {"max_tokens": 40}, "sampling": {"seed": 1}},
    {
        "token_ids": {"ids": [7] * 100},
        "sampling": {"temperature": 0},
        "stopping": {"max_tokens": 60, "ignore_eos": True},
        "eviction": {"policy": "H2O", "budget_tokens": 32},
    },
    {
        "token_ids": {"ids": list(range(10, 310))},
        "sampling": {"seed": 3, "temperature": 1.2},
        "stopping": {"max_tokens": 100, "ignore_eos": True},
        "eviction": {"policy": "FULL"},
    },
]


class ClientProcess:
    """soak_client.py, until it is stopped or killed."""

    def __init__(self, server, seed, probes):
        self.output = tempfile.NamedTemporaryFile("w+", prefix="soak-client-")
        self.process = subprocess.Popen(
            [sys.executable, HERE / "soak_client.py", server.address, seed, json.dumps(probes)],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )

    def kill(self):
        self.process.kill()
        self.process.wait()
        return self.said()

    def stop(self):
        """What it has to complain of, as text."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=90)  # any call's deadline is sooner
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # it tells where it hangs
            self.process.wait()
            return self.said() + f"{self.process.args[3]} hung\n"
        # SIGTERM: it had not begun.
        known = (0, 1, -signal.SIGTERM)
        return self.said() + (f"ended with {status}\n" if status not in known else "")

    def said(self):
        return pathlib.Path(self.output.name).read_text()


def load(server, choices, seconds, clients, probes):
    """So long, so many processes at once. Returns their complaints."""
    end = time.monotonic() + seconds
    number = 0

    def start():
        nonlocal number
        number += 1
        return ClientProcess(server, f"{choices.getrandbits(32)}.{number}", probes)

    complaints = ""
    processes = [start() for _ in range(clients)]
    try:
        while time.monotonic() < end:
            time.sleep(choices.uniform(1, 5))
            assert server.process.poll() is None, f"the server ended:\n{server.log[-10000:]}"
            victim = choices.randrange(clients)
            complaints += processes[victim].kill()
            processes[victim] = start()
        return complaints + "".join(process.stop() for process in processes)
    finally:
        for process in processes:
            process.kill()  # those that are left


class Possessions:
    """What the server's process has now."""

    def __init__(self, server):
        proc = pathlib.Path(f"/proc/{server.process.pid}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
        self.threads = int(status["Threads"])
        # Libraries name theirs. gRPC's pools grow to what was ever busy at once, and stay.
        self.own_threads = 0
        for task in proc.glob("task/*/comm"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                self.own_threads += task.read_text() == (proc / "comm").read_text()
        self.rss_mb = int(status["VmRSS"].split()[0]) / 1024
        self.fds = len(os.listdir(proc / "fd"))

    def __str__(self):
        threads = f"{self.threads} threads ({self.own_threads} own)"
        return f"{threads}, {self.fds} descriptors, RSS {self.rss_mb:.1f} MB"


def terminal_counts(metrics):
    """Of each terminal counter."""
    counts = {}
    for name, labels, value in metrics.samples:
        if name == "hydrant_request_success_total":
            counts[labels["finished_reason"]] = value
        elif name == "hydrant_requests_rejected_total":
            counts["rejected_" + labels["reason"]] = value
    return counts


def check_accounts(server):
    """Every request is in exactly one terminal counter, and in one line of the log."""
    metrics = server.metrics()
    received = metrics.value("hydrant_requests_received_total")
    counts = terminal_counts(metrics)
    assert counts["rejected_unauthenticated"] == 0
    assert sum(counts.values()) == received, f"{received} came, and ended as {counts}"
    assert counts["abort"] == metrics.value("hydrant_requests_cancelled_total")
    return int(received), {name: int(count) for name, count in counts.items() if count}


def check_log(log, received):
    told = 0
    for line in log.rstrip("\n").split("\n"):
        assert line.startswith("{"), f"a line of the log that is not JSON: {line}"
        entry = json.loads(line)
        assert entry["level"] == "info", line
        told += entry["message"] == "request"
    assert told == received, f"{received} requests, and {told} lines of them in the log"


def soak(duration, seed, clients, rss_allowance_mb=16):
    """Raises AssertionError for whatever the server did that it may not. Returns its counts."""
    choices = random.Random(seed)
    with Server(TINY_MODEL, *FLAGS) as server:
        answers = [server.client.generate(**request).token_ids for request in PROBES]
        probes = list(zip(PROBES, answers))
        server.wait_until_idle()
        before = Possessions(server)
        print(f"before:        {before}", flush=True)

        def phase(seconds):
            complaints = load(server, choices, seconds, clients, probes)
            assert not complaints, complaints[:10000]
            server.wait_until_idle()  # free + held = total, and nothing is held
            eventually(lambda: Possessions(server).fds <= before.fds, "all descriptors closed")
            return Possessions(server)

        warm = phase(duration / 3)
        print(f"after warm-up: {warm}", flush=True)
        phase(duration * 2 / 3)
        after = Possessions(server)
        print(f"after:         {after}", flush=True)
        assert after.own_threads == before.own_threads, f"{before}, then {after}"
        assert after.threads <= before.threads + LIBRARIES_THREADS, f"{before}, then {after}"
        assert after.rss_mb <= warm.rss_mb + rss_allowance_mb, f"it grew: {warm}, then {after}"
        received, counts = check_accounts(server)
        server.stop()
        check_log(server.log, received)
    return received, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--duration", type=float, default=300, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--rss_allowance_mb", type=float, default=16)
    received, counts = soak(**vars(parser.parse_args()))
    print(f"{received} requests: {counts}")


if __name__ == "__main__":
    main()
