"""The metrics, as a real Prometheus reads them and as promtool judges them."""

import subprocess

import grpc
import pytest

from prometheus_process import Prometheus
from server_process import Server, TINY_MODEL, eventually

HISTOGRAMS = """
    time_to_first_token_seconds inter_token_latency_seconds e2e_request_latency_seconds
    request_queue_time_seconds request_prefill_time_seconds request_decode_time_seconds
    request_prompt_tokens request_generation_tokens iteration_tokens_total
    request_kv_retained_ratio attention_recall
""".split()
GAUGES = """
    num_requests_running num_requests_waiting kv_cache_usage_perc kv_blocks kv_cache_bytes
    audit_memory_used_bytes audit_memory_limit_bytes grpc_streams_active engine_last_step_timestamp_seconds model_load_progress_ratio
""".split()
COUNTERS = """
    prompt_tokens_total generation_tokens_total num_preemptions_total request_success_total
    kv_evicted_tokens_total kv_blocks_freed_by_eviction_total requests_rejected_total
    requests_received_total requests_cancelled_total audits_ended_early_total
""".split()

EVICTING = {
    "token_ids": {"ids": [7] * 100},
    "sampling": {"temperature": 0},
    "stopping": {"ignore_eos": True, "max_tokens": 20},
    "eviction": {"policy": "H2O", "budget_tokens": 32},
}


@pytest.fixture(scope="module")
def used():
    """A server after eight requests that evict, one that is refused and one that is cancelled."""
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB") as server:
        for _ in range(8):
            server.client.generate(**EVICTING)
        with pytest.raises(grpc.RpcError):
            server.client.generate(text="Hi", sampling={"top_p": 7})
        stream = server.client.stream(
            request_id="gone", text="Hi", stopping={"ignore_eos": True}, sampling={"temperature": 0}
        )
        next(stream)
        stream.cancel()
        server.wait_until_idle()
        yield server


def test_every_documented_name_is_there(used):
    names = used.metrics().names()
    for name in GAUGES + COUNTERS:
        assert f"hydrant_{name}" in names
    for name in HISTOGRAMS:
        for part in ("_bucket", "_sum", "_count"):
            assert f"hydrant_{name}{part}" in names


def test_the_counts_are_those_of_the_requests(tiny_server_counts):
    metrics, usages = tiny_server_counts
    value = metrics.value
    assert value("hydrant_prompt_tokens_total") == sum(usage.prompt_tokens for usage in usages)
    assert value("hydrant_generation_tokens_total") == sum(
        usage.completion_tokens for usage in usages
    )
    assert value("hydrant_request_success_total", finished_reason="length") == len(usages)
    for name in ("e2e_request_latency_seconds", "time_to_first_token_seconds"):
        assert value(f"hydrant_{name}_count") == len(usages)
    # Each answer's first token has no token before it.
    assert value("hydrant_inter_token_latency_seconds_count") == sum(
        usage.completion_tokens - 1 for usage in usages
    )
    assert value("hydrant_kv_evicted_tokens_total") == sum(
        usage.evicted_tokens for usage in usages
    )
    # 100 tokens in 7 blocks become 33 slots in 3.
    assert value("hydrant_kv_blocks_freed_by_eviction_total") == 4 * len(usages)
    assert value("hydrant_kv_blocks") == value("hydrant_kv_blocks", state="free")
    assert value("hydrant_model_load_progress_ratio") == 1


@pytest.fixture(scope="module")
def tiny_server_counts():
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB") as server:
        usages = [server.client.generate(**EVICTING).finished.usage for _ in range(8)]
        server.wait_until_idle()
        yield server.metrics(), usages


def test_recall_of_audited_requests_is_observed():
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--audit_rate=1") as server:
        layers = server.client.call("GetModelInfo").num_layers
        recalls = [server.client.generate(**EVICTING).finished.usage.recall for _ in range(3)]
        refused = EVICTING | {"eviction": EVICTING["eviction"] | {"audit": False}}
        assert not server.client.generate(**refused).finished.usage.HasField("recall")
        server.wait_until_idle()
        metrics = server.metrics()
        for recall in recalls:
            assert 0 < recall.p5 <= recall.mean < 1
            assert recall.steps > 0 and not recall.ended_early
        observed = metrics.value("hydrant_attention_recall_count", policy="h2o")
        assert observed == len(recalls) * layers
        mean = metrics.value("hydrant_attention_recall_sum", policy="h2o") / observed
        assert mean == pytest.approx(sum(recall.mean for recall in recalls) / len(recalls))
        assert metrics.value("hydrant_audit_memory_used_bytes") == 0
        assert metrics.value("hydrant_audit_memory_limit_bytes") == 256_000_000


def test_refusals_and_cancels_are_counted(used):
    metrics = used.metrics()
    assert metrics.value("hydrant_requests_rejected_total", reason="invalid_argument") == 1
    assert metrics.value("hydrant_requests_cancelled_total") == 1


def test_promtool_complains_of_one_name_only(used):
    """It parses all, and dislikes a histogram's suffix; but that name is vLLM's, and kept."""
    check = subprocess.run(
        ["promtool", "check", "metrics"], input=used.metrics().text, capture_output=True, text=True
    )
    assert check.stdout + check.stderr == (
        'hydrant_iteration_tokens_total non-counter metrics should not have "_total" suffix\n'
    )


def test_a_real_prometheus_scrapes_it(used, tmp_path):
    with Prometheus(tmp_path, used.metrics_address) as prometheus:
        eventually(lambda: prometheus.value('up{job="hydrant"}') == 1, "Prometheus has scraped")
        assert prometheus.value("sum(hydrant_prompt_tokens_total)") == used.metrics().value(
            "hydrant_prompt_tokens_total"
        )
        free = prometheus.value('sum(hydrant_kv_blocks{state="free"})')
        assert free == used.client.load().kv_blocks_total
        half = prometheus.value(
            "histogram_quantile(0.5, sum by (le) (hydrant_e2e_request_latency_seconds_bucket))"
        )
        assert half > 0
