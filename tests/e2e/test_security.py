"""Who may call, over what: TLS, client certificates, tokens, limits, and a process without rights."""

import hashlib
import os
import shutil
import socket
import ssl
import subprocess
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from certificates import Authority
from hydrant_client import Client
from server_process import BINARY, TINY_MODEL, Server, eventually, free_port
from test_startup import failed_start, ports

REQUEST = {"text": "Hi", "sampling": {"temperature": 0}, "stopping": {"max_tokens": 4}}
SERVING = health_pb2.HealthCheckResponse.SERVING
GENERATE = ("generate", "--max_tokens=4", "--temperature=0", "Hi")
TOKEN = "7d5f0c8a3be94d1fa2c6e0b19d384f57"


def token_line(name, token):
    return f"{name} {hashlib.sha256(token.encode()).hexdigest()}\n"


def replace(path, text):
    """As a deployment does: the new file takes the old one's place at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def command(*arguments, **environment):
    return subprocess.run(
        [BINARY, *arguments], capture_output=True, text=True, timeout=60,
        env=os.environ | environment,
    )  # fmt: skip


def check_health(address):
    with grpc.insecure_channel(address) as channel:
        return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)


def served_certificate(address):
    host, port = address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=10)


class SecureServer(Server):
    """Waits by its health port, which is in plain text."""

    def __init__(self, *flags):
        self.health_address = f"127.0.0.1:{free_port()}"
        super().__init__(
            TINY_MODEL, "--kv_cache_bytes=8MB", f"--health_listen={self.health_address}", *flags,
            wait=False,
        )  # fmt: skip

        def serving():
            assert self.process.poll() is None, f"the server ended:\n{self.log}"
            try:
                return check_health(self.health_address).status == SERVING
            except grpc.RpcError:
                return False

        eventually(serving, "SERVING on the health port")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority, tmp_path_factory):
    """TLS with client certificates and tokens; its files can be changed."""
    folder = tmp_path_factory.mktemp("secured")
    cert, key = authority.issue("server")
    shutil.copy(cert, folder / "tls.pem")
    shutil.copy(key, folder / "tls.key")
    tokens = folder / "tokens"
    tokens.write_text(token_line("alice", TOKEN))
    with SecureServer(
        f"--tls_cert={folder}/tls.pem",
        f"--tls_key={folder}/tls.key",
        f"--tls_client_ca={authority.cert}",
        f"--auth_tokens={tokens}",
        "--max_tokens_limit=8",
        "--max_message_bytes=64KiB",
        "--max_metadata_bytes=4KiB",
    ) as server:
        server.tokens = tokens
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=30) as server.silent:
            yield server


@pytest.fixture(scope="module")
def identity(authority):
    return authority.issue("client")


def credentials(authority, identity=None, token=None):
    ca = authority.cert.read_bytes()
    if identity:
        cert, key = identity
        tls = grpc.ssl_channel_credentials(ca, key.read_bytes(), cert.read_bytes())
    else:
        tls = grpc.ssl_channel_credentials(ca)
    if token is None:
        return tls
    return grpc.composite_channel_credentials(tls, grpc.access_token_call_credentials(token))


def client(server, *arguments):
    return Client(server.address, credentials=credentials(*arguments))


def refusal(call, *arguments, **request):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **request)
    return caught.value


def test_a_certificate_and_a_token_open_it(secured, authority, identity):
    caller = client(secured, authority, identity, TOKEN)
    assert caller.generate(**REQUEST).finished.usage.completion_tokens == 4
    caller.close()


def test_without_a_client_certificate_there_is_no_connection(secured, authority, tmp_path):
    stranger = Authority(tmp_path).issue("stranger")
    for wrong in (None, stranger):
        error = refusal(lambda: client(secured, authority, wrong, TOKEN))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
    # Nor in plain text.
    assert refusal(lambda: Client(secured.address)).code() == grpc.StatusCode.UNAVAILABLE


def test_tokens_are_asked_of_every_service_but_health(secured, authority, identity):
    rejected = secured.metrics().value("hydrant_requests_rejected_total", reason="unauthenticated")
    for token in (None, "wrong", TOKEN + "0"):
        with grpc.secure_channel(
            secured.address, credentials(authority, identity, token)
        ) as channel:
            for service in ("hydrant.v1.Generation", "vllm.grpc.engine.VllmEngine"):
                call = channel.unary_unary(f"/{service}/Abort")
                assert refusal(call, b"").code() == grpc.StatusCode.UNAUTHENTICATED
            reflect = channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            )
            assert refusal(lambda: list(reflect(iter([b""])))).code() == (
                grpc.StatusCode.UNAUTHENTICATED
            )
            unknown = channel.unary_unary("/no.such.Service/Method")
            assert refusal(unknown, b"").code() == grpc.StatusCode.UNAUTHENTICATED
            health = health_pb2_grpc.HealthStub(channel)
            assert health.Check(health_pb2.HealthCheckRequest(), timeout=10).status == SERVING
    assert secured.metrics().value(
        "hydrant_requests_rejected_total", reason="unauthenticated"
    ) == (rejected + 12)


def test_two_authorization_headers_are_refused(secured, authority, identity):
    with grpc.secure_channel(secured.address, credentials(authority, identity)) as channel:
        call = channel.unary_unary("/hydrant.v1.Generation/GetLoad")
        header = ("authorization", f"Bearer {TOKEN}")
        call(b"", metadata=[header])
        error = refusal(call, b"", metadata=[header, header])
        assert error.code() == grpc.StatusCode.UNAUTHENTICATED


def test_the_commands_are_clients_of_it(secured, authority, identity, tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN + "\n")
    tls = (
        f"--server={secured.address}", f"--tls_ca={authority.cert}", f"--tls_cert={identity[0]}",
        f"--tls_key={identity[1]}",
    )  # fmt: skip
    by_file = command(*GENERATE, *tls, f"--token_file={token_file}")
    by_environment = command(*GENERATE, *tls, HYDRANT_TOKEN=TOKEN)
    assert by_file.returncode == by_environment.returncode == 0, by_file.stderr
    assert by_file.stdout == by_environment.stdout != ""
    bench = command(
        "bench", *tls, "--requests=2", "--prompt_tokens=4", "--max_tokens=4", HYDRANT_TOKEN=TOKEN
    )
    assert bench.returncode == 0, bench.stderr
    none = command(*GENERATE, *tls)
    assert none.returncode == 1 and "UNAUTHENTICATED" in none.stderr
    # A token is not sent where it could be read.
    plain = command(*GENERATE, "--server=example.invalid:50051", HYDRANT_TOKEN=TOKEN)
    assert plain.returncode == 1 and "TLS" in plain.stderr
    missing = command(*GENERATE, *tls, "--token_file=/nowhere/token")
    assert missing.returncode == 1 and "/nowhere/token" in missing.stderr


def test_limits_are_named(secured, authority, identity):
    caller = client(secured, authority, identity, TOKEN)
    error = refusal(caller.generate, **REQUEST | {"stopping": {"max_tokens": 9}})
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "stopping.max_tokens" in error.details() and "8" in error.details()
    unasked = caller.generate(text="Hi", sampling={"temperature": 0}, stopping={"ignore_eos": True})
    assert unasked.finished.usage.completion_tokens == 8
    error = refusal(caller.generate, text="x" * (64 << 10))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    with grpc.secure_channel(secured.address, credentials(authority, identity, TOKEN)) as channel:
        call = channel.unary_unary("/hydrant.v1.Generation/GetLoad")
        call(b"", metadata=[("x-note", "n" * 1000)])
        error = refusal(call, b"", metadata=[("x-note", "n" * 5000)])
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "metadata" in error.details() and "4096" in error.details()
    caller.close()


def test_a_revoked_token_is_out_while_the_server_runs(secured, authority, identity):
    """Replaced as deployments do; a bad file changes nothing."""
    new = "another-token-of-bob"
    with grpc.secure_channel(secured.address, credentials(authority, identity)) as channel:
        call = channel.unary_unary("/hydrant.v1.Generation/GetLoad")

        def opens(token):
            try:
                call(b"", metadata=[("authorization", f"Bearer {token}")])
                return True
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAUTHENTICATED
                return False

        replace(secured.tokens, token_line("bob", new))
        eventually(lambda: opens(new), "the new token is taken")
        assert not opens(TOKEN)
        replace(secured.tokens, "alice not-a-hash\n")
        eventually(lambda: opens(new) and "stay as they were" in secured.log, "told in the log")
        replace(secured.tokens, token_line("alice", TOKEN))
        eventually(lambda: opens(TOKEN), "the old token is back")
        assert TOKEN not in secured.log


def test_a_rotated_certificate_is_served_without_a_restart(authority, tmp_path):
    """Open streams go on; new connections see the new one."""
    first, first_key = authority.issue("first")
    second, second_key = authority.issue("second")
    live = tmp_path / "live"
    # As Kubernetes does: a link that is turned to another folder.
    for name, cert, key in (("one", first, first_key), ("two", second, second_key)):
        (tmp_path / name).mkdir()
        shutil.copy(cert, tmp_path / name / "tls.crt")
        shutil.copy(key, tmp_path / name / "tls.key")
    live.symlink_to(tmp_path / "one")
    with SecureServer(f"--tls_cert={live}/tls.crt", f"--tls_key={live}/tls.key") as server:
        assert served_certificate(server.address).strip() == first.read_text().strip()
        caller = client(server, authority)
        stream = caller.stream(
            text="Hi", sampling={"temperature": 0},
            stopping={"ignore_eos": True, "max_tokens": 500},
        )  # fmt: skip
        next(stream)
        turned = tmp_path / "turned"
        turned.symlink_to(tmp_path / "two")
        turned.rename(live)
        eventually(
            lambda: served_certificate(server.address).strip() == second.read_text().strip(),
            "the new certificate is served",
        )
        assert [event for event in stream][-1].HasField("finished")
        caller.close()


def test_tokens_without_tls_work_on_loopback_and_nowhere_else(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(token_line("alice", TOKEN))
    with SecureServer(f"--auth_tokens={tokens}", "--health_needs_token") as server:
        ok = command(*GENERATE, f"--server={server.address}", HYDRANT_TOKEN=TOKEN)
        assert ok.returncode == 0, ok.stderr
        bad = command(*GENERATE, f"--server={server.address}", HYDRANT_TOKEN="wrong")
        assert bad.returncode == 1 and "UNAUTHENTICATED" in bad.stderr
        assert refusal(check_health, server.address).code() == grpc.StatusCode.UNAUTHENTICATED
    message = failed_start(
        f"--model={TINY_MODEL}", f"--auth_tokens={tokens}", f"--listen=0.0.0.0:{free_port()}",
        "--metrics_listen=off",
    )  # fmt: skip
    assert "--auth_tokens needs --tls_cert" in message


def test_a_tokens_name_is_its_tenant(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(token_line("alice", TOKEN) + token_line("alice", "her-new-token-of-32-characters")
                      + token_line("bob", "the-token-of-bob-of-32-characters"))  # fmt: skip
    with SecureServer(
        f"--auth_tokens={tokens}", "--tenant_metadata_key=authorization",
        "--tenant_tokens_per_second=0.01", "--tenant_burst_tokens=1",
    ) as server:  # fmt: skip
        def caller(token):
            local = grpc.local_channel_credentials()
            return Client(server.address, credentials=grpc.composite_channel_credentials(
                local, grpc.access_token_call_credentials(token)))  # fmt: skip

        alice, also_alice = caller(TOKEN), caller("her-new-token-of-32-characters")
        bob = caller("the-token-of-bob-of-32-characters")
        assert alice.generate(**REQUEST).finished  # and has used her tokens
        error = refusal(also_alice.generate, **REQUEST)
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "tenant_tokens_per_second" in error.details()
        assert bob.generate(**REQUEST).finished
        eventually(lambda: "tenant=alice" in server.log, "the log names alice")
        assert "tenant=bob" in server.log
        for token in (TOKEN, "the-token-of-bob"):
            assert token not in server.log
        for open_client in (alice, also_alice, bob):
            open_client.close()


def test_bad_files_are_named_at_the_start(authority, tmp_path):
    cert, key = authority.issue("good")
    other = authority.issue("other")[1]
    garbage = tmp_path / "garbage"
    garbage.write_text("no certificate\n")
    expired = authority.issue("expired", days=0)

    def start(*flags):
        return failed_start(
            f"--model={TINY_MODEL}", f"--listen=127.0.0.1:{free_port()}", "--metrics_listen=off", *flags
        )

    assert "--tls_key" in start(f"--tls_cert={cert}")
    for flags, words in (
        ((f"--tls_cert={garbage}", f"--tls_key={key}"), ("--tls_cert", str(garbage))),
        ((f"--tls_cert={cert}", f"--tls_key={garbage}"), ("--tls_key", str(garbage))),
        ((f"--tls_cert={cert}", f"--tls_key={other}"), ("--tls_key", "not the key")),
        ((f"--tls_cert={tmp_path}/no", f"--tls_key={key}"), ("--tls_cert", "No such file")),
        (
            (f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={garbage}"),
            ("--tls_client_ca", str(garbage)),
        ),
        ((f"--auth_tokens={garbage}",), (f"{garbage}:1",)),
        ((f"--auth_tokens={tmp_path}/no",), ("--auth_tokens", f"{tmp_path}/no")),
    ):
        message = start(*flags)
        assert all(word in message for word in words), message
    time.sleep(1.1)  # it is valid for no time, but for the second that it was made in
    assert "expired" in start(f"--tls_cert={expired[0]}", f"--tls_key={expired[1]}")


def test_who_connects_and_says_nothing_is_put_out(secured):
    assert secured.silent.recv(1) == b""  # 10 s after it connected


def test_a_crowd_of_connections_is_kept_out_and_forgotten(tmp_path):
    """Those beyond the limit are closed at once, calls on the others go on, and later ones come in.

    The limit is of the process: its reserve for other files adds 128.
    """
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--max_connections=8") as server:
        host, port = server.address.rsplit(":", 1)
        crowd = [socket.create_connection((host, int(port)), timeout=30) for _ in range(300)]
        assert crowd[-1].recv(1) == b""  # closed by the server
        assert server.client.generate(**REQUEST).finished.usage.completion_tokens == 4
        assert server.metrics().value("hydrant_grpc_streams_active") == 0
        for connection in crowd:
            connection.close()
        own = [("grpc.use_local_subchannel_pool", 1)]

        def comes_in():
            try:
                return Client(server.address, options=own).load().healthy
            except grpc.RpcError:
                return False

        eventually(comes_in, "a new connection is taken")
    message = failed_start(f"--model={TINY_MODEL}", *ports(), "--max_connections=2000000000")
    assert "--max_connections" in message and "file descriptors" in message


def test_it_runs_without_rights_on_a_file_system_that_cannot_be_written():
    """In a mount name space of its own: all read-only, no capability, a user that is nobody."""
    if os.geteuid() != 0:
        pytest.skip("making mounts read-only needs root")
    script = (
        "set -e; findmnt -rno TARGET | while read -r mount; do"
        ' mount -o remount,bind,ro "$mount" 2>/dev/null || true; done;'
        " for place in / /tmp /var/tmp /dev/shm; do"
        '   if touch "$place/probe" 2>/dev/null; then echo "$place can be written"; exit 1; fi; done;'
        " exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all"
        ' --inh-caps=-all --no-new-privs "$@"'
    )
    prefix = ["unshare", "--mount", "bash", "-c", script, "bash"]
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", prefix=prefix) as server:
        answer = server.client.generate(**REQUEST)
        assert answer.finished.usage.completion_tokens == 4
        status = open(f"/proc/{server.process.pid}/status").read()
        assert "Uid:\t65534\t65534\t65534\t65534" in status
        assert "CapEff:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
