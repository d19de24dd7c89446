"""A server's life as an orchestrator and an operator see it: probes, a stuck engine, the log."""

import json
import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from conftest import EXACT
from hydrant_client import Client, chat, refusal
from server_process import MODEL, TINY_MODEL, Server, eventually

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
STUCK_EXIT = 70


def probes(client):
    names = ("startup", "readiness", "liveness")
    return [client.health.Check(HealthCheckRequest(service=name)).status for name in names]


def test_probes_while_loading_serving_and_draining():
    with Server(MODEL, "--kv_cache_bytes=100MB", "--weight_dtype=f32", wait=False) as server:
        host, port = server.address.split(":")

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        eventually(listens, "the port is open")
        client = Client(server.address)
        # The packing of the weights takes longer than these three calls.
        assert probes(client) == [NOT_SERVING, NOT_SERVING, SERVING]
        error, details = refusal(client, text="Hi")
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert details["ErrorInfo"].reason == "LOADING"
        assert "RetryInfo" in details

        server.wait_until_serving()
        assert probes(client) == [SERVING, SERVING, SERVING]
        stream = client.stream(chat=chat("Count."), stopping={"ignore_eos": True})
        next(stream)
        server.terminate()
        eventually(lambda: probes(client) == [SERVING, NOT_SERVING, SERVING], "draining")
        stream.cancel()


def test_a_step_that_does_not_end_ends_the_server():
    """The reference backend takes minutes for what is asked of it here: longer than it may."""
    flags = ("--device=reference", "--weight_dtype=f32", "--max_batched_tokens=2048")
    server = Server(MODEL, *flags, "--kv_cache_bytes=200MB", "--step_timeout=1")
    watches = [
        server.client.health.Watch(HealthCheckRequest(service=name))
        for name in ("readiness", "liveness")
    ]
    for watch in watches:
        assert next(watch).status == SERVING
    stream = server.client.stream(token_ids={"ids": [5] * 2000})
    for watch in watches:
        assert next(watch).status == NOT_SERVING
    assert not server.client.load().healthy
    with pytest.raises(grpc.RpcError) as error:
        for _ in stream:
            pass
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    assert server.process.wait(timeout=60) == STUCK_EXIT
    assert "does not end" in server.log


def logged(server):
    return [json.loads(line) for line in server.log.splitlines()]


def run_some(*flags):
    """A server's whole log, as JSON, after three requests."""
    with Server(TINY_MODEL, *EXACT, "--kv_cache_bytes=8MB", "--log_format=json", *flags) as server:
        stopping = {"max_tokens": 3, "ignore_eos": True}
        server.client.generate(request_id="good", text="a secret", stopping=stopping)
        refusal(server.client, request_id="bad", text="a secret", sampling={"top_p": 7})
        stream = server.client.stream(
            request_id="left\n{}", text="a secret", stopping={"ignore_eos": True}
        )
        next(stream)
        stream.cancel()
        server.wait_until_idle()
    return logged(server)


def test_the_log_is_json_and_tells_each_request_once():
    lines = run_some()
    requests = {line["request_id"]: line for line in lines if line["message"] == "request"}
    assert len([line for line in lines if line["message"] == "request"]) == 3
    good, bad, left = requests["good"], requests["bad"], requests["left\n{}"]
    assert (good["status"], good["finish_reason"]) == ("OK", "LENGTH")
    assert good["completion_tokens"] == 3 and good["prompt_tokens"] > 1
    assert (bad["status"], bad["reason"]) == ("INVALID_ARGUMENT", "INVALID_PARAMETER")
    assert left["status"] in ("CANCELLED", "OK")  # it may have ended just before
    assert not any("a secret" in json.dumps(line) for line in lines)
    configuration = next(line for line in lines if line["message"] == "configuration")
    assert configuration["--log_format"] == "json"
    assert configuration["--max_queue"] == "1024"
    assert lines[-1]["message"] == "stopped"


def test_prompts_are_logged_when_asked_for_and_requests_need_not_be():
    requests = [line for line in run_some("--log_prompts") if line["message"] == "request"]
    assert [line["prompt"] for line in requests] == ["a secret"] * 3
    assert not [line for line in run_some("--log_requests=false") if line["message"] == "request"]
