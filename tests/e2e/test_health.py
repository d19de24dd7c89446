"""Health while the server lives, and how it goes down: what runs is finished, what comes refused."""

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from hydrant_client import Answer, chat
from server_process import MODEL, Server

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


@pytest.mark.parametrize(
    "service", ["", "hydrant.v1.Generation", "vllm.grpc.engine.VllmEngine"]
)
def test_check_knows_the_server_and_the_service(tiny, service):
    assert tiny.client.health.Check(HealthCheckRequest(service=service)).status == SERVING


def test_an_unknown_service(tiny):
    with pytest.raises(grpc.RpcError) as error:
        tiny.client.health.Check(HealthCheckRequest(service="no.such.Service"))
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    watch = tiny.client.health.Watch(HealthCheckRequest(service="no.such.Service"))
    assert next(watch).status == HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()


def test_sigterm_drains():
    with Server(MODEL, "--kv_cache_bytes=100MB", "--drain_timeout=60") as server:
        client = server.client
        watch = client.health.Watch(HealthCheckRequest())
        assert next(watch).status == SERVING
        stream = client.stream(
            chat=chat("Count."), stopping={"ignore_eos": True, "max_tokens": 300}
        )
        answer = Answer()
        answer.add(next(stream))

        server.terminate()
        assert next(watch).status == NOT_SERVING
        assert client.health.Check(HealthCheckRequest()).status == NOT_SERVING
        with pytest.raises(grpc.RpcError) as error:
            client.generate(chat=chat("Too late?"))
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
        assert client.load().draining

        for response in stream:
            answer.add(response)
        assert answer.reason == "LENGTH"
        assert len(answer.token_ids) == 300


def test_the_drain_timeout_ends_what_still_runs():
    with Server(MODEL, "--kv_cache_bytes=100MB", "--drain_timeout=1") as server:
        stream = server.client.stream(chat=chat("Count."), stopping={"ignore_eos": True})
        next(stream)
        server.terminate()
        with pytest.raises(grpc.RpcError) as error:
            for _ in stream:
                pass
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE


def test_while_loading_it_says_so():
    """From its first moment the port answers; what it answers is one of two honest things."""
    with Server(MODEL, "--kv_cache_bytes=100MB", wait=False) as server:
        seen = []
        with grpc.insecure_channel(server.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(
                HealthCheckRequest(), wait_for_ready=True, timeout=120
            )
            for answer in watch:
                seen.append(answer.status)
                if answer.status == SERVING:
                    break
            watch.cancel()
        assert seen in ([SERVING], [NOT_SERVING, SERVING])
