"""Servers shared by the tests of a file."""

import pytest

from server_process import MODEL, TINY_MODEL, Server

# The exact mode, in which golden data is compared.
EXACT = ("--weight_dtype=f32", "--kv_cache_dtype=f32")


@pytest.fixture(scope="module")
def tiny():
    """A tiny random model in f32: fast, deterministic, with a context of 512 tokens."""
    with Server(TINY_MODEL, *EXACT, "--kv_cache_bytes=32MB") as server:
        yield server


@pytest.fixture(scope="module")
def smollm():
    """A real instruct model."""
    with Server(MODEL, "--kv_cache_bytes=200MB") as server:
        yield server


@pytest.fixture(scope="module")
def one_at_a_time():
    """A real model that runs one request, keeps two waiting and refuses the next."""
    with Server(MODEL, "--kv_cache_bytes=200MB", "--max_num_seqs=1", "--max_queue=2") as server:
        yield server
