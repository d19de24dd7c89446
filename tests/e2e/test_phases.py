"""A request that is ended from outside, wherever it is: its KV is free within one step."""

import grpc
import pytest

from hydrant_client import chat
from server_process import MODEL, Server, eventually

ENDLESS = {"chat": chat("Count."), "stopping": {"ignore_eos": True, "max_tokens": 8000}}
# 125 steps of 64 tokens: however fast the machine, there is time to end it within.
LONG = {"token_ids": {"ids": [260, 198, 4103, 43525, 314, 441, 13254, 30] * 1000}}
STEPS = "hydrant_iteration_tokens_total_count"


@pytest.fixture(scope="module")
def server():
    flags = ("--kv_cache_bytes=200MB", "--max_num_seqs=1", "--max_batched_tokens=64")
    with Server(MODEL, *flags) as server:
        yield server


def ended_with(stream):
    with pytest.raises(grpc.RpcError) as error:
        for _ in stream:
            pass
    return error.value.code()


def begin(server, phase, timeout=None):
    """A stream that is in `phase`, and what else has to be ended after it."""
    client = server.client
    if phase == "queue":
        running = client.stream(**ENDLESS)
        next(running)
        stream = client.stream(timeout, request_id="victim", **ENDLESS)
        eventually(lambda: client.load().waiting == 1, "one waiting")
        return stream, [running]
    request = LONG if phase == "prefill" else ENDLESS
    # With log-probabilities of the prompt, nothing is told before it has been read.
    output = {"prompt_logprobs": 0} if phase == "prefill" else {}
    stream = client.stream(timeout, request_id="victim", output=output, **request)
    if phase == "decode":
        next(stream), next(stream)
    eventually(lambda: client.load().running == 1, "one running")
    return stream, []


@pytest.mark.parametrize("phase", ["queue", "prefill", "decode"])
def test_abort(server, phase):
    stream, others = begin(server, phase)
    read_before = server.metrics().value("hydrant_prompt_tokens_total")
    server.client.call("Abort", request_id="victim")
    assert ended_with(stream) == grpc.StatusCode.CANCELLED
    # Gauges are published before streams hear of it: no waiting here.
    load = server.client.load()
    assert load.waiting == 0 and load.running == len(others)
    if not others:
        assert load.kv_blocks_free == load.kv_blocks_total
    if phase == "prefill":
        read = server.metrics().value("hydrant_prompt_tokens_total") - read_before
        assert read < len(LONG["token_ids"]["ids"]) - 64
    for other in others:
        next(other)
        other.cancel()
    server.wait_until_idle()


@pytest.mark.parametrize("phase", ["queue", "prefill", "decode"])
def test_deadline(server, phase):
    def ended():
        # The client's own clock may end the call first: then the server sees it leave.
        metrics = server.metrics()
        reasons = ("deadline", "abort")
        name = "hydrant_request_success_total"
        return sum(metrics.value(name, finished_reason=reason) for reason in reasons)

    before = ended()
    # Longer than a busy machine takes to get there, shorter than the prompt takes to read.
    stream, others = begin(server, phase, timeout=1.5)
    assert ended_with(stream) == grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: server.client.load().waiting == 0, "none waiting")
    eventually(lambda: server.client.load().running == len(others), "only the others run")
    eventually(lambda: ended() == before + 1, "one more has ended")
    for other in others:
        next(other)
        other.cancel()
    server.wait_until_idle()


def test_no_step_is_made_for_a_client_that_left(server):
    stream, _ = begin(server, "decode")
    stream.cancel()
    server.wait_until_idle()
    steps = server.metrics().value(STEPS)
    server.client.load()
    assert server.metrics().value(STEPS) == steps
