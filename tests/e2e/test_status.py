"""Every way that a request may end otherwise than well, and the status that says so."""

import json
import shutil

import grpc
import pytest

from hydrant_client import chat, refusal, refusal_details
from conftest import EXACT
from server_process import TINY_MODEL, Server, eventually

Code = grpc.StatusCode
ENDLESS = {"chat": chat("Count."), "stopping": {"ignore_eos": True}}


BAD_PARAMETERS = [
    ("temperature", {"sampling": {"temperature": -1}}),
    ("temperature", {"sampling": {"temperature": float("nan")}}),
    ("top_p", {"sampling": {"top_p": 0}}),
    ("top_p", {"sampling": {"top_p": 1.5}}),
    ("top_k", {"sampling": {"top_k": -2}}),
    ("min_p", {"sampling": {"min_p": 2}}),
    ("repetition_penalty", {"sampling": {"repetition_penalty": 0}}),
    ("presence_penalty", {"sampling": {"presence_penalty": 3}}),
    ("frequency_penalty", {"sampling": {"frequency_penalty": -3}}),
    ("logit_bias", {"sampling": {"logit_bias": {3: 200}}}),
    ("logit_bias", {"sampling": {"logit_bias": {640: 1}}}),
    ("max_tokens", {"stopping": {"max_tokens": 0}}),
    ("max_tokens", {"stopping": {"max_tokens": -5}}),
    ("min_tokens", {"stopping": {"min_tokens": -1}}),
    ("min_tokens", {"stopping": {"min_tokens": 9, "max_tokens": 8}}),
    ("stop", {"stopping": {"stop": [""]}}),
    ("stop_token_ids", {"stopping": {"stop_token_ids": [640]}}),
    ("logprobs", {"output": {"logprobs": -1}}),
    ("logprobs", {"output": {"logprobs": 100_000}}),
    ("prompt_logprobs", {"output": {"prompt_logprobs": -1}}),
    ("budget_tokens", {"eviction": {"policy": "H2O", "budget_tokens": 0}}),
    ("budget_ratio", {"eviction": {"policy": "H2O", "budget_ratio": 0}}),
    ("budget_ratio", {"eviction": {"policy": "H2O", "budget_ratio": 1.5}}),
    ("recent_tokens", {"eviction": {"budget_tokens": 32, "recent_tokens": 0}}),
    ("sink_tokens", {"eviction": {"budget_tokens": 32, "sink_tokens": -1}}),
    ("recent_tokens", {"eviction": {"budget_tokens": 32, "sink_tokens": 20, "recent_tokens": 20}}),
    ("budget_tokens", {"eviction": {"policy": "FULL", "budget_tokens": 32}}),
    ("token_ids", {"token_ids": {"ids": [1, 640]}}),
    ("token_ids", {"token_ids": {"ids": [1, 2**32 - 1]}}),
    ("input", {"token_ids": {"ids": []}}),
    ("input", {"text": ""}),
    ("messages", {"chat": {"messages": []}}),
    ("role", {"chat": {"messages": [{"role": "", "content": "Hi"}]}}),
    ("request_id", {"request_id": "x" * 257}),
    ("priority", {"priority": 101}),
    ("priority", {"priority": -(2**31)}),
]


@pytest.mark.parametrize("name, change", BAD_PARAMETERS, ids=lambda value: str(value)[:60])
def test_a_bad_parameter_is_named(tiny, name, change):
    request = change if {"token_ids", "text", "chat"} & change.keys() else {"text": "Hi"} | change
    error, details = refusal(tiny.client, **request)
    assert error.code() == Code.INVALID_ARGUMENT
    assert name in error.details()
    assert "RetryInfo" not in details


def test_an_audit_without_memory_for_it():
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--audit_bytes=0") as server:
        error, _ = refusal(server.client, text="Hi", eviction={"audit": True})
        assert error.code() == Code.INVALID_ARGUMENT
        assert "eviction.audit" in error.details()
        assert "audit_bytes is 0" in error.details()


def test_no_input_at_all(tiny):
    error, _ = refusal(tiny.client)
    assert error.code() == Code.INVALID_ARGUMENT
    assert "input" in error.details()


def test_a_prompt_longer_than_the_context(tiny):
    error, _ = refusal(tiny.client, token_ids={"ids": [5] * 513})
    assert error.code() == Code.INVALID_ARGUMENT
    assert "512" in error.details() and "513" in error.details()


def test_a_prompt_that_the_cache_can_never_hold():
    """The pool holds about 300 tokens: 400 are refused, and 200 are answered."""
    with Server(TINY_MODEL, "--kv_cache_dtype=f32", "--kv_cache_bytes=256KB") as server:
        blocks = server.client.load().kv_blocks_total
        assert 16 * blocks < 400
        error, _ = refusal(server.client, token_ids={"ids": [5] * 400})
        assert error.code() == Code.INVALID_ARGUMENT
        assert str(blocks) in error.details()
        server.client.generate(
            token_ids={"ids": [5] * 200}, stopping={"max_tokens": 4}, eviction={"policy": "FULL"}
        )
        server.wait_until_idle()


@pytest.mark.parametrize("method", ["Generate", "Tokenize", "Detokenize", "GetModelInfo"])
def test_an_unknown_model(tiny, method):
    fields = {"token_ids": [1]} if method == "Detokenize" else {"text": "Hi"}
    if method == "GetModelInfo":
        fields = {}
    with pytest.raises(grpc.RpcError) as error:
        answer = tiny.client.call(method, model="no-such-model", **fields)
        list(answer) if method == "Generate" else None
    assert error.value.code() == Code.NOT_FOUND
    assert "no-such-model" in error.value.details()


def test_an_id_that_is_in_flight(smollm):
    running = smollm.client.stream(request_id="twice", **ENDLESS)
    next(running)
    error, _ = refusal(smollm.client, request_id="twice", text="Hi")
    assert error.code() == Code.ALREADY_EXISTS
    assert "twice" in error.details()
    next(running)  # which goes on
    running.cancel()
    smollm.wait_until_idle()


def test_a_full_queue_says_when_to_come_back(one_at_a_time):
    client = one_at_a_time.client
    refused_before = rejected(one_at_a_time)
    streams = [client.stream(**ENDLESS)]
    next(streams[0])
    for waiting in (1, 2):
        streams.append(client.stream(**ENDLESS))
        eventually(lambda: client.load().waiting == waiting, f"{waiting} waiting")
    error, details = refusal(client, **ENDLESS)
    assert error.code() == Code.RESOURCE_EXHAUSTED
    assert details["RetryInfo"].retry_delay.ToTimedelta().total_seconds() > 0
    assert rejected(one_at_a_time) == refused_before + 1
    for stream in streams:
        stream.cancel()
    one_at_a_time.wait_until_idle()


def rejected(server):
    metrics = server.metrics()
    name = "hydrant_requests_rejected_total"
    return metrics.value(name, reason="queue_full") if name in metrics.names() else 0


def test_a_deadline_that_passes_in_the_queue(one_at_a_time):
    client = one_at_a_time.client
    running = client.stream(**ENDLESS)
    next(running)
    with pytest.raises(grpc.RpcError) as error:
        client.generate(timeout=0.5, **ENDLESS)
    assert error.value.code() == Code.DEADLINE_EXCEEDED
    eventually(lambda: client.load().waiting == 0, "the late request left the queue")
    assert client.load().running == 1
    next(running)
    running.cancel()
    one_at_a_time.wait_until_idle()


def test_a_deadline_that_passes_while_running(smollm):
    stream = smollm.client.stream(timeout=1.0, **ENDLESS)
    received = 0
    with pytest.raises(grpc.RpcError) as error:
        for _ in stream:
            received += 1
    assert error.value.code() == Code.DEADLINE_EXCEEDED
    assert received > 1
    smollm.wait_until_idle()


def test_an_unknown_method(tiny):
    method = tiny.client.channel.unary_unary("/hydrant.v1.Generation/Sing")
    with pytest.raises(grpc.RpcError) as error:
        method(b"")
    assert error.value.code() == Code.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["Generate", "Tokenize"])
def test_a_message_over_the_limit(tiny, method):
    with pytest.raises(grpc.RpcError) as error:
        answer = tiny.client.call(method, text="x" * (17 << 20))
        list(answer) if method == "Generate" else None
    assert error.value.code() == Code.RESOURCE_EXHAUSTED
    assert tiny.client.call("Tokenize", text="still here").token_ids


# Field 4 of GenerateRequest and 2 of TokenizeRequest are the text: here one with a byte that no
# UTF-8 has, and a surrogate; then what is no message at all.
@pytest.mark.parametrize("bytes", [b"\xffHi", b"\xed\xa0\x80"], ids=repr)
@pytest.mark.parametrize("method", ["Generate", "Tokenize"])
def test_text_that_is_not_utf8(tiny, method, bytes):
    field = {"Generate": 4, "Tokenize": 2}[method]
    assert_malformed(tiny, method, bytes_field(field, bytes))


@pytest.mark.parametrize("method", ["Generate", "Tokenize"])
def test_bytes_that_are_no_message(tiny, method):
    assert_malformed(tiny, method, b"\xff\xff\xff\xff")


def bytes_field(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def assert_malformed(server, method, message):
    kind = "unary_stream" if method == "Generate" else "unary_unary"
    call = getattr(server.client.channel, kind)(f"/hydrant.v1.Generation/{method}")
    with pytest.raises(grpc.RpcError) as error:
        answer = call(message)
        list(answer) if method == "Generate" else None
    assert error.value.code() == Code.INVALID_ARGUMENT
    assert refusal_details(error.value)["ErrorInfo"].reason == "MALFORMED_MESSAGE"
    assert server.client.call("Tokenize", text="still here").token_ids


def test_a_fault_of_the_model(tmp_path):
    """Weights that are not numbers give no token: INTERNAL, and the server lives on."""
    broken = tmp_path / "broken"
    shutil.copytree(TINY_MODEL, broken)
    poison(broken / "model.safetensors", "model.norm.weight")
    with Server(broken, "--kv_cache_bytes=8MB", *EXACT) as server:
        error, details = refusal(server.client, text="Hi")
        assert error.code() == Code.INTERNAL
        assert details["ErrorInfo"].reason == "ENGINE_FAULT"
        server.wait_until_idle()
        assert server.metrics().value("hydrant_request_success_total", finished_reason="error") == 1


def poison(path, tensor):
    """Makes a tensor of a safetensors file all ones: the bits of a NaN in every float type."""
    data = bytearray(path.read_bytes())
    header = int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8 : 8 + header])[tensor]["data_offsets"]
    data[8 + header + begin : 8 + header + end] = b"\xff" * (end - begin)
    path.write_bytes(data)
