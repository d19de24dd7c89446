"""The unary methods: Tokenize, Detokenize, GetModelInfo, GetLoad, Abort."""

import json
import time

import grpc
import pytest

from hydrant_client import chat
from server_process import TEST_DATA, eventually

GOLDEN = json.loads((TEST_DATA / "golden" / "llama-gqa" / "golden.json").read_text())
SMOLLM = json.loads((TEST_DATA / "golden" / "smollm2-135m-instruct.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["tokenizer"], ids=lambda case: repr(case["text"][:20]))
def test_tokenize_and_back(tiny, case):
    call = tiny.client.call
    assert list(call("Tokenize", text=case["text"]).token_ids) == case["ids"]
    without = call("Tokenize", text=case["text"], add_special_tokens=False)
    assert list(without.token_ids) == case["ids_no_special"]
    assert without.rendered == case["text"]
    assert call("Detokenize", token_ids=case["ids"]).text == case["decoded"]
    with_special = call("Detokenize", token_ids=case["ids"], skip_special_tokens=False)
    assert with_special.text == case["decoded_with_special"]


@pytest.mark.parametrize("case", SMOLLM["chat"], ids=lambda case: case["content"][:20])
def test_a_chat_is_rendered_by_the_checkpoints_template(smollm, case):
    answer = smollm.client.call("Tokenize", chat=chat(case["content"]))
    assert answer.rendered == case["rendered"]
    assert list(answer.token_ids) == case["prompt_ids"]


def test_model_info(tiny):
    info = tiny.client.call("GetModelInfo")
    assert info.name == "llama-gqa"
    assert info.architecture == "llama"
    assert (info.num_layers, info.num_heads, info.num_kv_heads, info.head_dim) == (3, 4, 2, 16)
    assert (info.vocab_size, info.hidden_size, info.max_model_len) == (640, 64, 512)
    assert (info.weight_dtype, info.kv_cache_dtype) == ("f32", "f32")
    # K and V of 16 floats, a score and a position: for each of 3 layers and 2 KV heads.
    assert info.kv_bytes_per_token == 3 * 2 * (2 * 16 * 4 + 8)
    assert info.block_slots == 16
    assert info.kv_cache_bytes <= 32_000_000
    assert info.kv_blocks == info.kv_cache_bytes // (info.kv_bytes_per_token * info.block_slots)
    assert list(info.eos_token_ids) == [2]
    assert info.default_eviction.Policy.Name(info.default_eviction.policy) == "H2O"
    assert info.default_eviction.budget_tokens == 1024
    assert info.server_version


def test_load_follows_a_request(smollm):
    before = smollm.client.load()
    assert before.running == before.waiting == 0
    assert before.healthy and not before.draining
    stream = smollm.client.stream(chat=chat("Count."), stopping={"ignore_eos": True})
    next(stream), next(stream)
    during = smollm.client.load()
    assert during.running == 1
    assert 0 < during.kv_blocks_free < during.kv_blocks_total
    assert abs(during.last_step_unix_ms / 1000 - time.time()) < 60
    stream.cancel()
    smollm.wait_until_idle()


def test_abort_ends_the_stream_with_cancelled(smollm):
    stream = smollm.client.stream(
        request_id="to-abort", chat=chat("Count."), stopping={"ignore_eos": True}
    )
    assert next(stream).prompt_info.request_id == "to-abort"
    smollm.client.call("Abort", request_id="to-abort")
    with pytest.raises(grpc.RpcError) as error:
        for _ in stream:
            pass
    assert error.value.code() == grpc.StatusCode.CANCELLED
    smollm.wait_until_idle()
    with pytest.raises(grpc.RpcError) as error:
        smollm.client.call("Abort", request_id="to-abort")
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert "to-abort" in error.value.details()


def test_an_id_may_be_used_again_when_its_request_has_ended(tiny):
    for _ in range(3):
        answer = tiny.client.generate(
            request_id="again", text="Hello", stopping={"max_tokens": 3}
        )
        assert answer.prompt_info.request_id == "again"


def test_priority_goes_first(one_at_a_time):
    """Of two that wait, the one of higher priority that came later runs first."""
    client = one_at_a_time.client
    endless = {"text": "Hello", "stopping": {"ignore_eos": True}}
    running = client.stream(**endless)
    next(running)
    low = client.stream(**endless, priority=0)
    eventually(lambda: client.load().waiting == 1, "one waiting")
    high = client.stream(**endless, priority=5, timeout=120)
    eventually(lambda: client.load().waiting == 2, "two waiting")
    running.cancel()
    next(high), next(high)
    load = client.load()
    assert (load.running, load.waiting) == (1, 1)
    high.cancel()
    low.cancel()
    one_at_a_time.wait_until_idle()
