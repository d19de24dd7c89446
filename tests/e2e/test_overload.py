"""More than a server can do at once: who is refused, how fast, and that nobody else suffers."""

import statistics
import time

import grpc
import pytest

from conftest import EXACT
from hydrant_client import Answer, Client, chat, refusal
from server_process import MODEL, TINY_MODEL, Server, eventually

Code = grpc.StatusCode
ENDLESS = {"chat": chat("Count."), "stopping": {"ignore_eos": True}}
TENANT = "x-tenant"


def test_refusals_are_quick_while_64_streams_decode():
    """They carry what a client needs to come back, cost no tokenizing, and disturb no stream."""
    with Server(MODEL, "--kv_cache_bytes=200MB", "--max_num_seqs=64", "--max_queue=2") as server:
        client = server.client
        streams = []
        for running in range(1, 65):  # one by one: the queue of two must not refuse any of these
            streams.append(client.stream(**ENDLESS, eviction={"budget_tokens": 64}))
            eventually(lambda: client.load().running == running, f"{running} running")
        streams += [client.stream(**ENDLESS, eviction={"budget_tokens": 64}) for _ in range(2)]
        eventually(lambda: client.load().waiting == 2, "2 waiting")
        # 4 MB of text would take a tokenizer, and the text's own thread, far longer than a refusal.
        inputs = [{"text": "Hi"}] * 15 + [{"text": "word " * 800_000}] * 5
        times = []
        for given in inputs:
            start = time.perf_counter()
            error, details = refusal(client, **given)
            times.append(1000 * (time.perf_counter() - start))
            assert error.code() == Code.RESOURCE_EXHAUSTED
            assert details["ErrorInfo"].reason == "QUEUE_FULL"
            assert details["RetryInfo"].retry_delay.ToTimedelta().total_seconds() > 0
        print(
            f"refused in (ms): short {statistics.median(times[:15]):.1f} median, "
            f"{max(times[:15]):.1f} most; 4 MB {statistics.median(times[15:]):.1f} median"
        )
        assert client.load().running == 64
        for stream in streams:
            stream.cancel()
        server.wait_until_idle()
        assert server.metrics().value("hydrant_requests_rejected_total", reason="queue_full") == 20


def test_the_queue_is_bounded_by_tokens():
    flags = ("--max_num_seqs=1", "--max_queue_tokens=100")
    with Server(MODEL, "--kv_cache_bytes=200MB", *flags) as server:
        client = server.client
        running = client.stream(**ENDLESS)
        next(running)
        waiting = client.stream(token_ids={"ids": [5] * 60})
        eventually(lambda: client.load().waiting_tokens == 60, "60 tokens waiting")
        error, details = refusal(client, token_ids={"ids": [5] * 41})
        assert error.code() == Code.RESOURCE_EXHAUSTED
        assert details["ErrorInfo"].reason == "QUEUE_FULL"
        assert "max_queue_tokens" in error.details()
        another = client.stream(token_ids={"ids": [5] * 40})
        eventually(lambda: client.load().waiting_tokens == 100, "100 tokens waiting")
        for stream in (running, waiting, another):
            stream.cancel()
        server.wait_until_idle()


def test_who_waits_too_long_is_told():
    flags = ("--max_num_seqs=1", "--queue_timeout=0.2")
    with Server(MODEL, "--kv_cache_bytes=200MB", *flags) as server:
        running = server.client.stream(**ENDLESS)
        next(running)
        error, details = refusal(server.client, text="Hi")
        assert error.code() == Code.RESOURCE_EXHAUSTED
        assert details["ErrorInfo"].reason == "QUEUE_TIMEOUT"
        assert "RetryInfo" in details
        next(running)  # which is not hurried
        running.cancel()
        server.wait_until_idle()
        ended = "hydrant_request_success_total"
        assert server.metrics().value(ended, finished_reason="queue_timeout") == 1


def test_tenants_have_their_own_limits():
    flags = (f"--tenant_metadata_key={TENANT}", "--tenant_max_requests=1")
    with Server(MODEL, "--kv_cache_bytes=200MB", *flags) as server:
        client = server.client
        first = client.stream(metadata=[(TENANT, "a")], **ENDLESS)
        next(first)
        error, details = refusal(client, metadata=[(TENANT, "a")], text="Hi")
        assert error.code() == Code.RESOURCE_EXHAUSTED
        assert details["ErrorInfo"].reason == "TENANT_REQUESTS"
        assert "RetryInfo" in details
        short = {"text": "Hi", "stopping": {"max_tokens": 2, "ignore_eos": True}}
        client.generate(metadata=[(TENANT, "b")], **short)
        client.generate(**short)  # who names no tenant is one, too
        first.cancel()
        server.wait_until_idle()
        client.generate(metadata=[(TENANT, "a")], **short)
        error, _ = refusal(client, metadata=[(TENANT, "a" * 257)], text="Hi")
        assert error.code() == Code.INVALID_ARGUMENT
        assert TENANT in error.details()
        rejected = "hydrant_requests_rejected_total"
        assert server.metrics().value(rejected, reason="tenant_requests") == 1


def test_a_tenants_tokens_run_out_and_come_back():
    flags = (
        f"--tenant_metadata_key={TENANT}",
        "--tenant_tokens_per_second=20",
        "--tenant_burst_tokens=1",
    )
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", *EXACT, *flags) as server:
        stopping = {"max_tokens": 5, "ignore_eos": True}
        request = {"token_ids": {"ids": [5] * 10}, "stopping": stopping}
        mine, others = {"metadata": [(TENANT, "a")]}, {"metadata": [(TENANT, "b")]}
        server.client.generate(**mine, **request)  # 15 tokens: 14 in debt, 0.7 s
        error, details = refusal(server.client, **mine, **request)
        assert error.code() == Code.RESOURCE_EXHAUSTED
        assert details["ErrorInfo"].reason == "TENANT_TOKENS"
        delay = details["RetryInfo"].retry_delay.ToTimedelta().total_seconds()
        assert 0 < delay <= 0.75
        server.client.generate(**others, **request)
        time.sleep(delay)
        server.client.generate(**mine, **request)


def test_a_reader_that_stops_costs_no_more_than_its_buffer():
    """What it leaves unread is bounded: its KV goes, and when it reads on, it is told."""
    with Server(MODEL, "--kv_cache_bytes=200MB", "--stream_buffer_bytes=64KB") as server:
        # A small window, so that little is under way.
        options = {
            "grpc.use_local_subchannel_pool": 1,
            "grpc.http2.bdp_probe": 0,
            "grpc.http2.lookahead_bytes": 65536,
        }
        slow = Client(server.address, options=options.items())
        stream = slow.stream(**ENDLESS, output={"logprobs": 100})
        answer = Answer()
        answer.add(next(stream))
        eventually(lambda: server.client.load().running == 0, "its request was ended")
        load = server.client.load()
        assert load.kv_blocks_free == load.kv_blocks_total
        with pytest.raises(grpc.RpcError) as error:
            for response in stream:
                answer.add(response)
        assert error.value.code() == Code.RESOURCE_EXHAUSTED
        assert "stream_buffer_bytes" in error.value.details()
        assert answer.finished is None
        slow.close()
        server.wait_until_idle()
