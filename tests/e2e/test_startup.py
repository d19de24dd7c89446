"""What cannot be started says why, by name, and ends with a status that is not 0."""

import socket
import subprocess

import pytest

from server_process import BINARY, STARTUP_SECONDS, TINY_MODEL, free_port


def failed_start(*flags):
    """The messages of a `hydrant serve` that must not start."""
    run = subprocess.run(
        [BINARY, "serve", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STARTUP_SECONDS,
    )
    assert run.returncode > 0, run.stdout
    return run.stdout


def ports():
    return f"--listen=127.0.0.1:{free_port()}", f"--metrics_listen=127.0.0.1:{free_port()}"


@pytest.mark.parametrize("flag", ["listen", "metrics_listen"])
def test_a_port_that_is_taken(flag):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = dict(flag.split("=", 1) for flag in ports()) | {f"--{flag}": address}
        message = failed_start(
            f"--model={TINY_MODEL}", *(f"{name}={value}" for name, value in flags.items())
        )
    assert address in message


def test_a_model_that_is_not_there(tmp_path):
    missing = tmp_path / "missing.gguf"
    assert str(missing) in failed_start(f"--model={missing}", *ports())


def test_a_file_that_is_no_model(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 64)
    assert str(broken) in failed_start(f"--model={broken}", *ports())


@pytest.mark.parametrize(
    "flag",
    [
        "--kv_cache_bytes=lots",
        "--eviction=sometimes",
        "--max_num_seqs=0",
        "--weight_dtype=f7",
        "--audit_rate=1.5",
        "--audit_bytes=-1",
    ],
)
def test_a_bad_flag(flag):
    message = failed_start(f"--model={TINY_MODEL}", flag, *ports())
    assert flag[2:].split("=")[0] in message
    assert flag.split("=")[1] in message


def test_no_model():
    assert "--model" in failed_start(*ports())
