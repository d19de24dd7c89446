"""Many servers as one: gRPC's own balancing, and the SMG gateway with its OpenAI API."""

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from smg_grpc_proto.generated import vllm_engine_pb2

from conftest import EXACT
from gateway_process import Gateway, refusal
from hydrant_client import Client, chat, refusal_details
from server_process import TINY_MODEL, Server, eventually

Code = grpc.StatusCode
VLLM = "vllm.grpc.engine.VllmEngine"
MODEL = TINY_MODEL.name
QUESTION = "hello there"
GREEDY = {"temperature": 0}
FLAGS = (*EXACT, "--kv_cache_bytes=32MB")


@pytest.fixture(scope="module")
def workers():
    with Server(TINY_MODEL, *FLAGS) as first, Server(TINY_MODEL, *FLAGS) as second:
        yield first, second


@pytest.fixture(scope="module")
def gateway(workers):
    with Gateway(TINY_MODEL, [worker.address for worker in workers]) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def engine(workers):
    """The service that gateways call, without one."""
    return Client(workers[0].address, service=VLLM)


def ended(worker):
    return worker.metrics().value("hydrant_request_success_total")


def own_answer(worker, text=QUESTION, max_tokens=24, **stopping):
    return worker.client.generate(
        chat=chat(text), sampling=GREEDY, stopping={"max_tokens": max_tokens, **stopping}
    )


# ---- gRPC's own balancing ----


def test_round_robin_over_addresses_reaches_every_server(workers):
    """As a headless Service's name resolves to: several addresses of one name."""
    target = "ipv4:" + ",".join(worker.address for worker in workers)
    config = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})
    client = Client(target, options=[("grpc.service_config", config)])
    before = [ended(worker) for worker in workers]

    def both_answered():
        client.generate(chat=chat(QUESTION), stopping={"max_tokens": 1})
        return all(ended(worker) > then for worker, then in zip(workers, before, strict=True))

    eventually(both_answered, "an answer of each server")


# ---- the gateway ----


def test_a_chat_by_way_of_the_gateway_is_the_servers_own_answer(workers, gateway):
    own = own_answer(workers[0])
    answer = gateway.chat(MODEL, QUESTION, max_tokens=24, temperature=0)
    [choice] = answer["choices"]
    assert choice["message"]["content"] == own.text != ""
    assert choice["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == own.prompt_info.prompt_tokens
    assert answer["usage"]["completion_tokens"] == 24


def test_a_chat_is_streamed(workers, gateway):
    # Long enough that it cannot all be there before the first of it is sent.
    tokens = 400
    chunks = list(
        gateway.stream_chat(
            MODEL,
            QUESTION,
            max_tokens=tokens,
            temperature=0,
            stream_options={"include_usage": True},
        )
    )
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    pieces = [choice["delta"].get("content") or "" for choice in choices]
    assert "".join(pieces) == own_answer(workers[0], max_tokens=tokens).text
    assert sum(piece != "" for piece in pieces) > 1
    assert choices[-1]["finish_reason"] == "length"
    assert chunks[-1]["usage"]["completion_tokens"] == tokens


def test_a_stop_string_ends_an_answer_before_it(workers, gateway):
    whole = own_answer(workers[0]).text
    stop = whole[len(whole) // 2 :][:3]
    own = own_answer(workers[0], stop=[stop])
    answer = gateway.chat(MODEL, QUESTION, max_tokens=24, temperature=0, stop=[stop])
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == own.text == whole[: whole.index(stop)]
    assert answer["usage"]["completion_tokens"] == len(own.token_ids)


def test_refusals_reach_the_client_of_the_gateway(gateway):
    status, error = refusal(lambda: gateway.chat(MODEL, QUESTION, max_tokens=5000))
    assert status == 400
    assert "max_tokens" in error["message"] and "512" in error["message"]
    status, error = refusal(lambda: gateway.chat(MODEL, QUESTION, max_tokens=2, n=2))
    assert status == 501
    assert "sampling_params.n" in error["message"]


def test_a_client_that_leaves_the_gateway_frees_its_kv(workers, gateway):
    stream = gateway.stream_chat(MODEL, QUESTION, max_tokens=480, ignore_eos=True)
    next(stream)
    stream.close()
    for worker in workers:
        worker.wait_until_idle()


def test_every_request_is_answered_though_a_server_dies():
    with Server(TINY_MODEL, *FLAGS) as stays:
        dies = Server(TINY_MODEL, *FLAGS)
        addresses = [stays.address, dies.address]
        with Gateway(TINY_MODEL, addresses) as gateway, ThreadPoolExecutor(4) as pool:

            def ask(i):
                return gateway.chat(MODEL, f"{QUESTION} {i}", max_tokens=8, ignore_eos=True)

            list(pool.map(ask, range(8)))
            assert ended(stays) > 0 and ended(dies) > 0  # both take part
            dies.process.kill()
            dies.process.wait()
            answers = list(pool.map(ask, range(16)))
        assert {answer["usage"]["completion_tokens"] for answer in answers} == {8}


# ---- the service ----


def fields(descriptor):
    """name -> (number, type, repeated), for what the wire and its readers depend on."""
    return {f.name: (f.number, f.type, f.is_repeated) for f in descriptor.fields}


def test_the_wire_is_the_gateways(engine):
    theirs = vllm_engine_pb2.DESCRIPTOR
    service = theirs.services_by_name["VllmEngine"]
    assert service.full_name == engine.descriptor.full_name
    for method in engine.descriptor.methods:
        assert method.name in service.methods_by_name
    ours = engine.descriptor.file
    for name, message in ours.message_types_by_name.items():
        known = fields(theirs.message_types_by_name[name])
        for field, wire in fields(message).items():
            assert known[field] == wire, f"{name}.{field}"


def complete(engine, **request):
    """Of an answer that is not streamed: one message."""
    [response] = list(engine.call("Generate", **request))
    return response.complete


def prompt_ids(worker):
    return list(worker.client.call("Tokenize", chat=chat(QUESTION)).token_ids)


def test_streamed_tokens_are_new_ones_and_the_end_has_them_all(workers, engine):
    ids = prompt_ids(workers[0])
    tokens = 400
    own = own_answer(workers[0], max_tokens=tokens)
    request = {
        "request_id": "fleet",
        "tokenized": {"input_ids": ids},
        "sampling_params": {"temperature": 0, "max_tokens": tokens},
    }
    *chunks, last = list(engine.call("Generate", stream=True, **request))
    assert len(chunks) > 1
    streamed = []
    for chunk in chunks:
        streamed += chunk.chunk.token_ids
        assert chunk.chunk.prompt_tokens == len(ids)
        assert chunk.chunk.completion_tokens == len(streamed)
    assert streamed == own.token_ids == list(last.complete.output_ids)
    whole = complete(engine, **request)
    assert whole == last.complete
    assert (whole.finish_reason, whole.prompt_tokens) == ("length", len(ids))
    assert (whole.completion_tokens, whole.cached_tokens) == (tokens, 0)


def test_logprobs_are_the_servers_own(workers, engine):
    own = workers[0].client.generate(
        chat=chat(QUESTION),
        sampling=GREEDY,
        stopping={"max_tokens": 4},
        output={"logprobs": 2, "prompt_logprobs": 1},
    )
    request = {
        "tokenized": {"input_ids": prompt_ids(workers[0])},
        "sampling_params": {
            "temperature": 0,
            "max_tokens": 4,
            "logprobs": 2,
            "prompt_logprobs": 1,
        },
    }
    whole = complete(engine, **request)
    *chunks, last = [r for r in engine.call("Generate", stream=True, **request)]
    streamed = [value for c in chunks for value in c.chunk.output_logprobs.token_logprobs]
    assert streamed == list(whole.output_logprobs.token_logprobs)
    assert streamed == [entry.logprob for entry in own.logprobs]
    assert chunks[0].chunk.input_logprobs == whole.input_logprobs
    assert not any(c.chunk.HasField("input_logprobs") for c in chunks[1:])
    tops = [list(top.token_ids) for top in whole.output_logprobs.top_logprobs]
    assert tops == [[top.token_id for top in entry.top] for entry in own.logprobs]
    first, *rest = whole.input_logprobs.token_logprobs
    assert not first.HasField("value")
    told = own.prompt_info.prompt_logprobs
    assert [entry.value for entry in rest] == [entry.logprob for entry in told[1:]]


def test_what_ended_an_answer_is_told(workers, engine):
    request = {"tokenized": {"input_ids": prompt_ids(workers[0])}}
    greedy = {"temperature": 0, "max_tokens": 24}
    ids = list(complete(engine, **request, sampling_params=greedy).output_ids)
    token = complete(engine, **request, sampling_params={**greedy, "stop_token_ids": [ids[2]]})
    assert (token.finish_reason, token.matched_token_id) == ("stop", ids[2])
    assert list(token.output_ids) == ids[: ids.index(ids[2]) + 1]
    text = workers[0].client.call("Detokenize", token_ids=ids).text
    stop = complete(engine, **request, sampling_params={**greedy, "stop": [text[2:5]]})
    assert (stop.finish_reason, stop.matched_stop_str) == ("stop", text[2:5])


@pytest.mark.parametrize(
    ("request_", "code", "named"),
    [
        ({}, Code.INVALID_ARGUMENT, "input"),
        ({"sampling_params": {"top_p": 2}}, Code.INVALID_ARGUMENT, "top_p"),
        ({"sampling_params": {"max_tokens": 1 << 31}}, Code.INVALID_ARGUMENT, "max_tokens"),
        ({"sampling_params": {"logit_bias": {-1: 1}}}, Code.INVALID_ARGUMENT, "logit_bias"),
        ({"data_parallel_rank": 1}, Code.INVALID_ARGUMENT, "data_parallel_rank"),
        ({"sampling_params": {"n": 2}}, Code.UNIMPLEMENTED, "sampling_params.n"),
        ({"sampling_params": {"json_object": True}}, Code.UNIMPLEMENTED, "json_object"),
        (
            {"sampling_params": {"truncate_prompt_tokens": 5}},
            Code.UNIMPLEMENTED,
            "truncate_prompt_tokens",
        ),
        ({"mm_inputs": {}}, Code.UNIMPLEMENTED, "mm_inputs"),
        ({"kv_transfer_params_json": "{}"}, Code.UNIMPLEMENTED, "kv_transfer_params_json"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(engine, request_, code, named):
    text = {} if named == "input" else {"text": "hello"}
    with pytest.raises(grpc.RpcError) as error:
        list(engine.call("Generate", **text, **request_))
    assert error.value.code() == code
    assert named in error.value.details()
    assert refusal_details(error.value)["ErrorInfo"].reason


def test_methods_of_other_engines_are_unimplemented(engine):
    for method in ("Embed", "GetTokenizer", "SubscribeKvEvents"):
        with pytest.raises(grpc.RpcError) as error:
            engine.channel.unary_unary(f"/{VLLM}/{method}")(b"")
        assert error.value.code() == Code.UNIMPLEMENTED


def test_abort_ends_a_request_and_takes_ids_that_are_gone(workers, engine):
    stream = engine.call(
        "Generate",
        request_id="endless",
        text="hello",
        stream=True,
        sampling_params={"ignore_eos": True, "max_tokens": 400},
    )
    next(stream)
    engine.call("Abort", request_ids=["endless", "gone"])
    with pytest.raises(grpc.RpcError) as error:
        list(stream)
    assert error.value.code() == Code.CANCELLED
    workers[0].wait_until_idle()


def test_what_gateways_ask_at_their_start(workers, engine):
    assert engine.call("HealthCheck").healthy
    own = workers[0].client.call("GetModelInfo")
    info = engine.call("GetModelInfo")
    assert info.served_model_name == own.name == MODEL
    assert info.is_generation
    assert (info.max_context_length, info.vocab_size) == (own.max_model_len, own.vocab_size)
    assert list(info.eos_token_ids) == list(own.eos_token_ids)
    assert engine.call("GetServerInfo").uptime_seconds > 0
    [load] = engine.call("GetLoads").loads
    assert load.max_total_num_tokens == own.kv_blocks * own.block_slots
    assert (load.num_running_reqs, load.token_usage) == (0, 0)


def test_limits_of_tenants_hold_for_both_services_together():
    flags = ("--tenant_metadata_key=x-tenant", "--tenant_max_requests=1")
    with Server(TINY_MODEL, *FLAGS, *flags) as server:
        alice, bob = [("x-tenant", "alice")], [("x-tenant", "bob")]
        engine = Client(server.address, service=VLLM)
        stream = server.client.stream(
            metadata=alice,
            text="hello",
            stopping={"ignore_eos": True, "max_tokens": 400},
        )
        next(stream)
        hello = {"text": "hello", "sampling_params": {"max_tokens": 1}}
        with pytest.raises(grpc.RpcError) as error:
            list(engine.call("Generate", metadata=alice, **hello))
        assert error.value.code() == Code.RESOURCE_EXHAUSTED
        details = refusal_details(error.value)
        assert details["ErrorInfo"].reason == "TENANT_REQUESTS" and "RetryInfo" in details
        assert list(engine.call("Generate", metadata=bob, **hello))
        stream.cancel()
        server.wait_until_idle()
        line = next(line for line in server.log.splitlines() if "tenant=bob" in line)
        assert "completion_tokens=1" in line


# ---- the Gateway API inference extension ----


def test_the_metrics_that_endpoint_pickers_scrape():
    with Server(TINY_MODEL, *FLAGS, "--metrics_compat=vllm") as server:
        metrics = server.metrics()
        for name in ("num_requests_waiting", "num_requests_running", "kv_cache_usage_perc"):
            assert metrics.value(f"vllm:{name}", model_name=MODEL) == 0
        info = server.client.call("GetModelInfo")
        shape = {"block_size": str(info.block_slots), "num_gpu_blocks": str(info.kv_blocks)}
        assert metrics.value("vllm:cache_config_info", **shape) == 1
