"""A request's tokens are its own: the same alone and among 64 others, whatever else differs."""

import random
import threading
import time

import pytest

from server_process import MODEL, TINY_MODEL, Server

COUNT = 64
POLICIES = ("FULL", "WINDOW", "STREAMING", "H2O")
EXACT = ("--weight_dtype=f32", "--kv_cache_dtype=f32")


def make_requests(vocabulary, max_prompt, max_tokens, policies=POLICIES):
    """64 requests of mixed length, policy, budget and sampling, the same each time."""
    chance = random.Random(20)
    requests = []
    for number in range(COUNT):
        policy = policies[number % len(policies)]
        eviction = {"policy": policy}
        if policy != "FULL":
            eviction["budget_tokens"] = chance.choice((16, 24, 40, 64))
        sampling = {"temperature": 0}
        if chance.random() < 0.5:
            sampling = {
                "temperature": chance.choice((0.7, 1, 1.3)),
                "top_p": chance.choice((0.9, 1)),
                "top_k": chance.choice((0, 40)),
                "repetition_penalty": chance.choice((1, 1.1)),
                "seed": chance.randrange(2**63),
            }
        length = chance.randrange(1, max_prompt)
        requests.append(
            {
                "token_ids": {"ids": [chance.randrange(3, vocabulary) for _ in range(length)]},
                "eviction": eviction,
                "sampling": sampling,
                "stopping": {"ignore_eos": True, "max_tokens": chance.randrange(1, max_tokens)},
                "priority": chance.randrange(3),
            }
        )
    return requests


def answers_together(server, requests, seconds):
    """Sends all within so many seconds, at random moments, each on a thread of its own."""
    chance = random.Random(21)
    answers = [None] * len(requests)

    def ask(number, delay):
        time.sleep(delay)
        answers[number] = server.client.generate(**requests[number])

    threads = [
        threading.Thread(target=ask, args=(number, chance.random() * seconds))
        for number in range(len(requests))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def check(answers, expected):
    for number, (answer, tokens) in enumerate(zip(answers, expected, strict=True)):
        assert answer is not None, f"request {number} failed"
        assert answer.token_ids == tokens, f"request {number}"


def test_a_real_model():
    """In the default data types; alone with every core, together on one and in small chunks."""
    requests = make_requests(vocabulary=49152, max_prompt=200, max_tokens=40)
    with Server(MODEL, "--kv_cache_bytes=400MB") as server:
        expected = [server.client.generate(**request).token_ids for request in requests]
        check(answers_together(server, requests, seconds=1), expected)
    small_steps = ("--threads=1", "--max_batched_tokens=48", "--max_num_seqs=40")
    with Server(MODEL, "--kv_cache_bytes=400MB", *small_steps) as server:
        check(answers_together(server, requests, seconds=1), expected)


@pytest.fixture(scope="module")
def tiny_requests():
    return make_requests(vocabulary=640, max_prompt=300, max_tokens=120)


@pytest.fixture(scope="module")
def tiny_alone(tiny, tiny_requests):
    return [tiny.client.generate(**request).token_ids for request in tiny_requests]


@pytest.mark.parametrize(
    "flags",
    [
        ["--kv_cache_bytes=32MB"],
        ["--kv_cache_bytes=32MB", "--max_batched_tokens=17", "--max_num_seqs=16"],
        ["--kv_cache_bytes=32MB", "--max_num_seqs=5", "--threads=1"],
    ],
    ids=" ".join,
)
def test_a_tiny_model(tiny_requests, tiny_alone, flags):
    with Server(TINY_MODEL, *EXACT, *flags) as server:
        check(answers_together(server, tiny_requests, seconds=0.2), tiny_alone)
        server.wait_until_idle()


def test_under_preemption(tiny):
    """With a cache far too small for all at once: unbounded requests are preempted and recomputed,
    bounded ones never are, and every answer stays what it was."""
    requests = make_requests(640, 100, 200, policies=("FULL", "FULL", "FULL", "H2O"))
    alone = [tiny.client.generate(**request).token_ids for request in requests]
    with Server(TINY_MODEL, *EXACT, "--kv_cache_bytes=600KB") as server:
        answers = answers_together(server, requests, seconds=0)
        check(answers, alone)
        for request, answer in zip(requests, answers):
            if request["eviction"]["policy"] != "FULL":
                assert answer.finished.usage.preemptions == 0
        preemptions = sum(answer.finished.usage.preemptions for answer in answers)
        assert preemptions > 0, "the cache was large enough: this proved nothing"
        assert server.metrics().value("hydrant_num_preemptions_total") == preemptions
        server.wait_until_idle()
