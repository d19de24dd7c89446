"""A real SMG gateway, which speaks OpenAI's HTTP API to clients and vllm.grpc.engine to workers."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from server_process import eventually, free_port


class Gateway:
    def __init__(self, model, workers, *flags):
        """`model`: a Hugging Face directory, whose name is what the workers call their model."""
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = tempfile.TemporaryDirectory(prefix="gateway-")
        # The gateway looks for a tokenizer under the model's name: an id at Hugging Face, or a
        # path, as here, from where it runs.
        (pathlib.Path(self._folder.name) / model.name).symlink_to(model)
        self._log = tempfile.NamedTemporaryFile("w+", prefix="gateway-", suffix=".log")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "smg",
                "launch",
                "--host=127.0.0.1",
                f"--port={self.address.rpartition(':')[2]}",
                "--prometheus-host=127.0.0.1",
                f"--prometheus-port={free_port()}",
                "--policy=round_robin",
                "--worker-urls",
                *(f"grpc://{worker}" for worker in workers),
                *flags,
            ],
            cwd=self._folder.name,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        eventually(self._ready, "the gateway's readiness")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # it would take its time to settle
        self.process.wait()
        self._folder.cleanup()

    def _ready(self):
        log = pathlib.Path(self._log.name).read_text(errors="replace")
        assert self.process.poll() is None, f"the gateway ended:\n{log}"
        try:
            with self.get("/readiness") as reply:
                return reply.status == 200
        except OSError:  # not listening yet, or 503
            return False

    def get(self, path):
        return urllib.request.urlopen(f"http://{self.address}{path}", timeout=30)

    def post(self, path, **body):
        """The open HTTP response; raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        return urllib.request.urlopen(request, timeout=60)

    def chat(self, model, text, **body):
        messages = [{"role": "user", "content": text}]
        with self.post("/v1/chat/completions", model=model, messages=messages, **body) as reply:
            return json.load(reply)

    def stream_chat(self, model, text, **body):
        """The chunks as they come; the stream must end as OpenAI's do."""
        messages = [{"role": "user", "content": text}]
        with self.post(
            "/v1/chat/completions", model=model, messages=messages, stream=True, **body
        ) as reply:
            for line in reply:
                field, _, data = line.decode().strip().partition(": ")
                if field != "data":
                    continue
                if data == "[DONE]":
                    return
                yield json.loads(data)
        raise AssertionError("the stream ended without [DONE]")


def refusal(call):
    """The HTTP status and the error of a request that must be refused."""
    try:
        call()
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]
    raise AssertionError("not refused")
