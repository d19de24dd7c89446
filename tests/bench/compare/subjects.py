"""Who is compared. Each subject runs one workload in processes of its own, from start to end."""

import json
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import tempfile
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
THREADS = len(os.sched_getaffinity(0))


@dataclass
class Run:
    tokens_per_second: float
    commands: list  # as typed
    version: str
    note: str = ""


class Failed(Exception):
    """A subject could not run; its message says why."""


def output_of(command, environment=None):
    """Standard output of a command that must end well."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise Failed(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{tail}")
    return done.stdout


def median_rate(workload, requests, seconds):
    return workload.tokens(requests) / statistics.median(seconds)


class Hydrant:
    """A server, and `hydrant bench` as its client: through gRPC on the loopback."""

    isa_can_be_chosen = True

    def __init__(self, binary, model, name="hydrant", evicts=True, flags=()):
        self.name = name
        self.binary = binary
        self.model = model
        self.evicts = evicts
        self.flags = list(flags)

    def run(self, workload):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        serve = [str(self.binary), "serve", f"--model={self.model}", f"--listen={address}",
                 "--metrics_listen=off", *self.flags]  # fmt: skip
        given = {flag.partition("=")[0] for flag in self.flags}
        serve += [flag for flag in workload.serve_flags if flag.partition("=")[0] not in given]
        environment = {"HYDRANT_ISA": workload.isa} if workload.isa else {}
        prefix = "".join(f"{name}={value} " for name, value in environment.items())
        if workload.kv_bytes:
            serve.append(f"--kv_cache_bytes={workload.kv_bytes}")
        bench = [str(self.binary), "bench", f"--server={address}", "--wait=2m",
                 f"--concurrency={workload.concurrency}", f"--requests={workload.concurrency}",
                 f"--prompt_tokens={workload.prompt}", f"--max_tokens={workload.generated}"]  # fmt: skip
        if workload.kept_tokens and self.evicts:
            bench += ["--eviction=h2o", f"--budget_tokens={workload.kept_tokens}"]
        else:
            bench.append("--eviction=full")
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            with log.open("w") as out:
                server = subprocess.Popen(
                    serve, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    env={**os.environ, **environment},
                )  # fmt: skip
            try:
                reports = [
                    self._bench(bench, repeat, pathlib.Path(folder) / "report.json")
                    for repeat in range(1, workload.repeats + 1)
                ]
            except Failed as failure:
                raise Failed(f"{failure}\n{log.read_text()[-2000:]}") from None
            finally:
                server.terminate()
                server.wait()
        last = reports[-1]
        note = ""
        if workload.kv_bytes:
            note = (f"{last['server']['kv_cache_dtype']} KV,"
                    f" {last['mean_running']:.1f} running on average,"
                    f" {last['usage']['preemptions']} preemptions")  # fmt: skip
        return Run(
            median_rate(workload, workload.concurrency, [report["seconds"] for report in reports]),
            [prefix + shlex.join(serve), shlex.join([*bench, "--seed=1"])],
            f"hydrant {last['server']['version']}, {last['server']['backend']},"
            f" {last['server']['weight_dtype']} weights, {last['server']['kv_cache_dtype']} KV",
            note,
        )

    def _bench(self, bench, seed, path):
        output_of([*bench, f"--seed={seed}", f"--json={path}"])
        report = json.loads(path.read_text())
        if report["requests"]["completed"] != report["requests"]["sent"]:
            raise Failed(f"not every request completed: {report['requests']}")
        return report


class LlamaCpp:
    """llama.cpp's own batched benchmark: in its process, without a server. binaries_for(isa) is the
    folder of the programs that were built for it."""

    isa_can_be_chosen = True

    def __init__(self, binaries_for, model, precision):
        self.name = f"llama.cpp {precision.upper()}"
        self.binaries_for = binaries_for
        self.model = model

    def run(self, workload):
        requests = workload.fit_without_eviction()
        context = requests * (workload.prompt + workload.generated) + 256
        batches = ",".join([str(requests)] * workload.repeats)
        binaries = self.binaries_for(workload.isa)
        command = [binaries / "llama-batched-bench", "-m", self.model, "-c", context,
                   "-b", 2048, "-ub", 512,
                   "-npp", workload.prompt, "-ntg", workload.generated, "-npl", batches,
                   "-t", THREADS, "-fa", "on", "--output-format", "jsonl"]  # fmt: skip
        lines = [
            json.loads(line) for line in output_of(command).splitlines() if line.startswith("{")
        ]
        if len(lines) != workload.repeats:
            raise Failed(f"{self.name}: {len(lines)} results, not {workload.repeats}")
        # The prompt's pass gives the first token, so that one of its decoding steps is not needed.
        needed = (workload.generated - 1) / workload.generated
        seconds = [line["t_pp"] + needed * line["t_tg"] for line in lines]
        return Run(
            median_rate(workload, requests, seconds),
            [shlex.join(map(str, command))],
            f"llama.cpp of llama-cpp-python {(binaries / 'version').read_text()}",
            f"{requests} at once" if requests < workload.concurrency else "",
        )


class Worker:
    """A peer that is a Python library: one of the worker scripts in its environment."""

    isa_can_be_chosen = False

    def __init__(self, name, python, script, model, evicts=False, **arguments):
        self.name = name
        self.python = python
        self.script = script
        self.model = model
        self.evicts = evicts
        self.arguments = arguments

    def run(self, workload):
        requests = workload.concurrency
        if workload.kv_bytes and not self.evicts:
            requests = workload.fit_without_eviction()
        arguments = {
            "model": str(self.model),
            "threads": THREADS,
            "prompt": workload.prompt,
            "generated": workload.generated,
            "concurrency": requests,
            "repeats": workload.repeats,
            "kv_bytes": workload.kv_bytes,
            "kept_tokens": workload.kept_tokens,
            **self.arguments,
        }
        command = [self.python, HERE / self.script, json.dumps(arguments)]
        result = json.loads(output_of(command).splitlines()[-1])
        return Run(
            median_rate(workload, requests, result["seconds"]),
            [shlex.join(map(str, command))],
            result["version"],
            f"{requests} at once" if requests < workload.concurrency else "",
        )
