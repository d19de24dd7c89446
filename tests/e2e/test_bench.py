"""`hydrant bench` against a real server: what it counts, says, writes and exits with."""

import json
import signal
import subprocess
import xml.etree.ElementTree as xml

import pytest

from bench_client import bench, bench_command, measure
from server_process import TINY_MODEL, Server, eventually, free_port

LATENCIES = ("ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds")


def test_closed_loop(tiny, tmp_path):
    # Long answers: tokens that wait for each other on the way come together, without a gap.
    plot = tmp_path / "plot.svg"
    report, done = measure(
        tiny.address, tmp_path, "--concurrency=4", "--requests=12", "--prompt_tokens=20",
        "--max_tokens=200", f"--plot={plot}",
    )  # fmt: skip
    assert report["requests"]["completed"] == report["requests"]["by_status"]["OK"] == 12
    assert report["output_tokens"] == report["usage"]["completion_tokens"] == 12 * 200
    assert report["prompt_tokens"] == report["usage"]["prompt_tokens"] == 12 * 20
    assert report["output_tokens_per_second"] == pytest.approx(12 * 200 / report["seconds"])
    assert sum(report["series"]["output_tokens"]) == 12 * 200
    assert report["mean_running"] <= report["peak"]["running"] <= 4
    assert report["slo"] is None and report["steps"] == []
    assert report["ttft_seconds"]["count"] == report["e2e_seconds"]["count"] == 12
    for name in LATENCIES:
        latency = report[name]
        assert 0 <= latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]
        assert latency["mean"] <= latency["max"]
    assert report["ttft_seconds"]["max"] <= report["e2e_seconds"]["max"]
    assert "12 sent, 12 completed" in done.stdout
    root = xml.parse(plot).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("12 of 12 requests completed" in text for text in texts)


def test_poisson_arrivals_and_ranges(tiny, tmp_path):
    report, _ = measure(
        tiny.address, tmp_path, "--rate=50", "--requests=30", "--prompt_tokens=5..40", "--max_tokens=1..9",
        "--seed=3",
    )  # fmt: skip
    assert report["requests"]["completed"] == 30
    assert 30 * 5 < report["prompt_tokens"] < 30 * 40
    assert 30 < report["output_tokens"] < 30 * 9


def test_a_ramp_reports_each_step(tiny, tmp_path):
    report, done = measure(
        tiny.address, tmp_path, "--concurrency=1..3", "--ramp_steps=3", "--duration=1.5s",
        "--prompt_tokens=10", "--max_tokens=5", "--slo=e2e=1m",
    )  # fmt: skip
    assert [step["level"] for step in report["steps"]] == [1, 2, 3]
    assert sum(step["requests"]["sent"] for step in report["steps"]) == report["requests"]["sent"]
    assert report["slo"]["met"] and report["slo"]["share"] == 1
    assert "in SLO" in done.stdout


def test_a_trace_with_prefixes_and_eviction(tiny, tmp_path):
    trace = tmp_path / "trace.jsonl"
    lines = [
        {"arrival": 0.2, "prompt_tokens": 100, "max_tokens": 20, "prefix_id": "a",
         "prefix_tokens": 60, "eviction": {"policy": "h2o", "budget_tokens": 40}},
        {"arrival": 0, "text": "Hello there", "max_tokens": 3},
        {"arrival": 0.1, "token_ids": [5, 6, 7], "max_tokens": 4, "eviction": {"policy": "full"}},
    ]  # fmt: skip
    trace.write_text("\n".join(json.dumps(line) for line in lines))
    report, _ = measure(tiny.address, tmp_path, f"--trace={trace}")
    assert report["requests"]["completed"] == 3
    assert report["output_tokens"] == 27
    assert report["seconds"] > 0.2
    assert report["usage"]["evicted_tokens"] >= 60
    # The same lines at another pace.
    report, _ = measure(tiny.address, tmp_path, f"--trace={trace}", "--concurrency=2", "--requests=6")
    assert report["output_tokens"] == 2 * 27


@pytest.mark.parametrize(
    "line, what", [('{"prompt_tokens": 0}', "prompt_tokens"), ('{"text": "x"}', "arrival")]
)
def test_a_wrong_line_of_a_trace_is_named(tiny, tmp_path, line, what):
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"prompt_tokens": 3, "arrival": 0}\n' + line + "\n")
    done = bench(tiny.address, f"--trace={trace}", exit_code=2)
    assert f"{trace}:2: " in done.stderr and what in done.stderr


def test_prompts_from_a_text(tiny, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("It was the best of times, it was the worst of times. " * 20)
    report, _ = measure(
        tiny.address, tmp_path, f"--prompts={text}", "--requests=4", "--prompt_tokens=16", "--max_tokens=2"
    )
    assert report["prompt_tokens"] == 4 * 16
    done = bench(tiny.address, f"--prompts={text}", "--prompt_tokens=100000", exit_code=1)
    assert str(text) in done.stderr


def test_a_failed_slo_has_an_exit_code(tiny, tmp_path):
    report, done = measure(
        tiny.address, tmp_path, "--requests=4", "--max_tokens=5", "--slo=ttft=1us,e2e=1h", exit_code=3
    )
    assert not report["slo"]["met"]
    assert report["slo"]["within"] == 0 and report["slo"]["goodput_requests_per_second"] == 0
    assert "SLO        ttft=0.001ms,e2e=3600s: FAILED" in done.stdout


def test_a_server_that_is_not_there():
    address = f"127.0.0.1:{free_port()}"
    done = bench(address, "--requests=1", exit_code=1)
    assert address in done.stderr


def test_refusals_are_shown(tmp_path):
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--max_num_seqs=1", "--max_queue=1") as server:
        report, done = measure(
            server.address, tmp_path, "--concurrency=16", "--requests=64", "--prompt_tokens=10",
            "--max_tokens=200", "--slo=e2e=1h", exit_code=3,
        )  # fmt: skip
    counts = report["requests"]
    assert counts["completed"] > 0
    assert counts["refused"] == counts["by_status"]["RESOURCE_EXHAUSTED"] > 0
    assert report["slo"]["share"] == counts["completed"] / 64
    assert f"{counts['refused']} refused" in done.stdout
    assert "RESOURCE_EXHAUSTED: " in done.stdout


def test_requests_that_can_never_run(tiny, tmp_path):
    report, done = measure(
        tiny.address, tmp_path, "--requests=3", "--prompt_tokens=5000", "--max_tokens=5", exit_code=1
    )
    assert report["requests"]["refused"] == 3
    assert report["ttft_seconds"] is None
    assert "INVALID_ARGUMENT: " in done.stdout


def test_requests_that_take_too_long(tiny, tmp_path):
    report, _ = measure(
        tiny.address, tmp_path, "--requests=2", "--max_tokens=300", "--timeout=1ms", "--warmup=0",
        exit_code=1,
    )  # fmt: skip
    assert report["requests"]["failed"] == report["requests"]["by_status"]["DEADLINE_EXCEEDED"] == 2


def test_an_interruption_reports_what_was_measured(tiny, tmp_path):
    path = tmp_path / "report.json"
    process = subprocess.Popen(
        bench_command(
            tiny.address, "--concurrency=2", "--duration=10m", "--prompt_tokens=10",
            "--max_tokens=50", "--warmup=0", f"--json={path}",
        ),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    before = tiny.metrics().value("hydrant_request_success_total")
    eventually(
        lambda: tiny.metrics().value("hydrant_request_success_total") > before + 2,
        "requests that completed",
    )
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    report = json.loads(path.read_text())
    assert report["interrupted"] and "interrupted" in output
    assert report["requests"]["completed"] >= 2
    assert report["requests"]["interrupted"] <= 2
    assert report["output_tokens"] >= 2 * 50
    tiny.wait_until_idle()


WRONG_FLAGS = [
    (["--concurrency=0"], "--concurrency"),
    (["--concurrency=1..99999"], "10000"),
    (["--concurrency=1..8", "--requests=9"], "--duration"),
    (["--concurrency=2", "--rate=3"], "--rate"),
    (["--rate=0"], "--rate"),
    (["--rate=nan"], "--rate"),
    (["--requests=0"], "--requests"),
    (["--duration=5x"], "--duration"),
    (["--prompt_tokens=9..3"], "--prompt_tokens"),
    (["--max_tokens=0"], "--max_tokens"),
    (["--slo=tbt=3s"], "tbt"),
    (["--slo_share=0.5"], "--slo"),
    (["--slo=e2e=1s", "--slo_share=1.5"], "--slo_share"),
    (["--trace=/nowhere/trace.jsonl"], "/nowhere/trace.jsonl"),
    (["--prompts=/nowhere/text"], "/nowhere/text"),
    (["--warmup=-1"], "--warmup"),
]


@pytest.mark.parametrize("flags, what", WRONG_FLAGS, ids=lambda value: str(value)[:50])
def test_wrong_flags_are_named(flags, what):
    done = bench("127.0.0.1:1", *flags, exit_code=2)
    assert what in done.stderr + done.stdout


def test_a_report_that_cannot_be_written(tiny):
    done = bench(tiny.address, "--requests=1", "--json=/nowhere/report.json", exit_code=1)
    assert "/nowhere/report.json" in done.stderr
