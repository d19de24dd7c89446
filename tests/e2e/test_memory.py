"""Memory that eviction frees is memory that the next request runs in.

All sizes are about a quarter of the workload write-64 of tests/bench/compare.sh, so that this takes
a minute or two.
"""

from bench_client import measure
from server_process import MODEL, Server


def run(folder, *flags):
    """64 requests at once, in a server of their own."""
    with Server(MODEL, "--kv_cache_bytes=25MB") as server:
        report, done = measure(
            server.address, folder, "--concurrency=64", "--requests=64", "--prompt_tokens=64",
            "--max_tokens=256", *flags, seconds=1000,
        )  # fmt: skip
        print(done.stdout)
        assert report["requests"]["completed"] == 64
        server.wait_until_idle()
    return report


def test_a_budget_lets_more_run_at_once(tmp_path):
    full = run(tmp_path, "--eviction=full")
    h2o = run(tmp_path, "--eviction=h2o", "--budget_tokens=48")
    assert h2o["mean_running"] >= 2.5 * full["mean_running"]
    assert h2o["usage"]["preemptions"] == 0
    assert full["usage"]["evicted_tokens"] == 0 < h2o["usage"]["evicted_tokens"]
