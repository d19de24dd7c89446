"""A real `hydrant serve` on free ports of the loopback, its gauges, and waiting for them."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hydrant_client import Client

BINARY = os.environ["HYDRANT_BINARY"]
MODEL = os.environ["HYDRANT_E2E_MODEL"]
TEST_DATA = pathlib.Path(os.environ["HYDRANT_TEST_DATA"])
TINY_MODEL = TEST_DATA / "golden" / "llama-gqa"

STARTUP_SECONDS = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def eventually(condition, what, seconds=60):
    """Waits until condition() is true; the limit only bounds a failure."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds} s still not: {what}"
        time.sleep(0.02)


class Metrics:
    """One scrape of the text exposition."""

    SAMPLE = re.compile(r"^(\w[\w:]*)(?:\{(.*)\})? (\S+)$")
    LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.text = text
        self.samples = []
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, labels, value = self.SAMPLE.match(line).groups()
                self.samples.append((name, dict(self.LABEL.findall(labels or "")), float(value)))

    def names(self):
        return {name for name, _, _ in self.samples}

    def value(self, name, **labels):
        """The sum over the samples that have these labels."""
        found = [
            value
            for sample, has, value in self.samples
            if sample == name and labels.items() <= has.items()
        ]
        assert found, f"no sample {name} {labels} in:\n{self.text}"
        return sum(found)


class Server:
    def __init__(self, model, *flags, wait=True, prefix=()):
        """`prefix`: a command that becomes the server, such as setpriv."""
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics_address = f"127.0.0.1:{free_port()}"
        self._terminated = False
        self._log = tempfile.NamedTemporaryFile("w+", prefix="hydrant-", suffix=".log")
        self.process = subprocess.Popen(
            [
                *prefix,
                BINARY,
                "serve",
                f"--model={model}",
                f"--listen={self.address}",
                f"--metrics_listen={self.metrics_address}",
                *flags,
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        if wait:
            self.wait_until_serving()
            self.client = Client(self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def log(self):
        return pathlib.Path(self._log.name).read_text()

    def wait_until_serving(self):
        with grpc.insecure_channel(self.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)

            def serving():
                assert self.process.poll() is None, f"the server ended:\n{self.log}"
                try:
                    answer = health.Check(health_pb2.HealthCheckRequest(), timeout=5)
                except grpc.RpcError:
                    return False
                return answer.status == health_pb2.HealthCheckResponse.SERVING

            eventually(serving, "SERVING", STARTUP_SECONDS)

    def terminate(self):
        """Once: a second signal ends the server without draining."""
        if not self._terminated:
            self._terminated = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self):
        """Ends the server as an operator would; it must end well."""
        if self.process.poll() is None:
            self.terminate()
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end on SIGTERM:\n{self.log}") from None
        assert status == 0, f"the server ended with {status}:\n{self.log}"

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=10) as reply:
            return Metrics(reply.read().decode())

    def wait_until_idle(self):
        """Waits until nothing runs or waits, and checks that then every block is free again."""

        def idle():
            load = self.client.load()
            # gRPC tells of a stream's end a little after its request's.
            streams = self.metrics().value("hydrant_grpc_streams_active")
            return load.running == 0 and load.waiting == 0 and streams == 0

        eventually(idle, "no request running or waiting, no stream open")
        load = self.client.load()
        assert load.kv_blocks_free == load.kv_blocks_total > 0
        metrics = self.metrics()
        assert metrics.value("hydrant_num_requests_running") == 0
        assert metrics.value("hydrant_num_requests_waiting") == 0
        assert metrics.value("hydrant_kv_blocks", state="free") == load.kv_blocks_total
        assert metrics.value("hydrant_kv_cache_usage_perc") == 0
