"""What a connection may do: its streams, its idleness, its age, and the headers of its calls."""

import socket

import grpc
import pytest
from grpc_health.v1 import health_pb2

import malformed_frames
from hydrant_client import Client
from server_process import TINY_MODEL, Server

REQUEST = {"text": "Hi", "sampling": {"temperature": 0}, "stopping": {"max_tokens": 4}}


def code_of(call, *arguments, **request):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **request)
    return caught.value.code()


def test_long_headers_cost_nobody_else_of_the_connection(tiny):
    """Beyond gRPC's own limit they would: other calls failed with them, or lost the connection."""
    long = [("x-note", "n" * 20_000)]
    received = "hydrant_requests_received_total"
    before = tiny.metrics().value(received)
    for _ in range(20):
        others = [tiny.client.stream(**REQUEST) for _ in range(4)]
        refused = code_of(tiny.client.generate, metadata=long, **REQUEST)
        assert refused == grpc.StatusCode.INVALID_ARGUMENT
        for other in others:
            assert list(other)[-1].HasField("finished")
    tiny.wait_until_idle()
    assert tiny.metrics().value(received) == before + 100


def frames_of(connection):
    """Frames as they come, (kind, payload), until the server closes; its pings are answered."""
    while header := connection.recv(9, socket.MSG_WAITALL):
        length, kind, flags = int.from_bytes(header[:3], "big"), header[3], header[4]
        payload = connection.recv(length, socket.MSG_WAITALL) if length else b""
        if kind == malformed_frames.PING and not flags:
            connection.sendall(malformed_frames.frame(kind, flags=1, payload=payload))
        yield kind, payload


def connected(server, first):
    host, port = server.address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(malformed_frames.HELLO + first)
    return connection


WATCH = malformed_frames.headers(1, "/grpc.health.v1.Health/Watch") + malformed_frames.frame(
    malformed_frames.DATA, malformed_frames.END_STREAM, 1, malformed_frames.message(b"")
)


def test_an_idle_connection_is_closed_and_one_with_a_call_is_not():
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--max_connection_idle=1") as server:
        with connected(server, WATCH) as busy, connected(server, b"") as idle:
            kinds = [kind for kind, _ in frames_of(idle)]
            assert malformed_frames.GOAWAY in kinds
            busy.sendall(malformed_frames.frame(malformed_frames.PING, payload=b"busybusy"))
            assert next(payload for kind, payload in frames_of(busy) if payload == b"busybusy")


def test_an_old_connection_ends_with_its_last_call():
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--max_connection_age=1") as server:
        with connected(server, WATCH) as old:
            frames = frames_of(old)
            while next(frames)[0] != malformed_frames.GOAWAY:
                pass
            old.sendall(malformed_frames.frame(malformed_frames.PING, payload=b"stillold"))
            assert next(payload for kind, payload in frames if payload == b"stillold")
            old.sendall(malformed_frames.frame(malformed_frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
            list(frames)  # closed by the server
        assert server.client.generate(**REQUEST).finished.usage.completion_tokens == 4


def test_calls_beyond_a_connections_streams_wait_at_the_client():
    own = [("grpc.use_local_subchannel_pool", 1)]
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--max_streams=1") as server:
        client = Client(server.address, options=own)
        watch = client.health.Watch(health_pb2.HealthCheckRequest())
        next(watch)
        late = code_of(client.call, "GetLoad", timeout=0.5)
        assert late == grpc.StatusCode.DEADLINE_EXCEEDED
        assert server.client.load().healthy  # by another connection
        watch.cancel()
        assert client.call("GetLoad", timeout=30).healthy
        client.close()
