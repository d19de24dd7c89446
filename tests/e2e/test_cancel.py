"""Clients that leave, die or do not read: their KV is freed, and nobody else notices."""

import random
import signal
import subprocess
import sys
import threading

import grpc
import pytest

from hydrant_client import Answer, Client, chat
from server_process import TEST_DATA, eventually

ENDLESS = {"chat": chat("Count."), "stopping": {"ignore_eos": True}}
LONG_PROMPT = {"ids": [260, 198, 4103, 43525, 314, 441, 13254, 30] * 200}


def cancelled(server):
    metrics = server.metrics()
    name = "hydrant_requests_cancelled_total"
    return metrics.value(name) if name in metrics.names() else 0


def assert_cancelled(stream):
    with pytest.raises(grpc.RpcError) as error:
        for _ in stream:
            pass
    assert error.value.code() == grpc.StatusCode.CANCELLED


def test_cancel_in_decode_while_another_goes_on(smollm):
    before = cancelled(smollm)
    other = smollm.client.stream(**ENDLESS)
    leaving = smollm.client.stream(**ENDLESS)
    next(other), next(leaving), next(leaving)
    assert smollm.client.load().running == 2
    leaving.cancel()
    assert_cancelled(leaving)
    eventually(lambda: smollm.client.load().running == 1, "only the other runs")
    eventually(lambda: cancelled(smollm) == before + 1, "the cancel is counted")
    next(other)
    other.cancel()
    smollm.wait_until_idle()
    eventually(lambda: cancelled(smollm) == before + 2, "both cancels are counted")


def test_cancel_in_prefill(smollm):
    stream = smollm.client.stream(token_ids=LONG_PROMPT)
    eventually(lambda: smollm.client.load().running == 1, "the prompt is being read")
    stream.cancel()
    assert_cancelled(stream)
    smollm.wait_until_idle()


def test_cancel_in_the_queue(one_at_a_time):
    client = one_at_a_time.client
    running = client.stream(**ENDLESS)
    next(running)
    waiting = client.stream(**ENDLESS)
    eventually(lambda: client.load().waiting == 1, "one waiting")
    free = client.load().kv_blocks_free
    waiting.cancel()
    assert_cancelled(waiting)
    eventually(lambda: client.load().waiting == 0, "none waiting")
    assert client.load().kv_blocks_free <= free  # it held none
    next(running)
    running.cancel()
    one_at_a_time.wait_until_idle()


def test_random_cancels_leave_nothing_behind(smollm):
    """48 requests under every policy, each left at a random event of its stream."""
    chance = random.Random(1)
    policies = [{"policy": "FULL"}] + [
        {"policy": policy, "budget_tokens": 32} for policy in ("WINDOW", "STREAMING", "H2O")
    ]

    def leave(events, length, policy):
        stream = smollm.client.stream(
            token_ids={"ids": LONG_PROMPT["ids"][:length]},
            stopping={"ignore_eos": True},
            eviction=policy,
        )
        for _ in range(events):
            next(stream)
        stream.cancel()

    threads = [
        threading.Thread(
            target=leave,
            args=(chance.randrange(12), chance.randrange(1, 400), policies[number % 4]),
        )
        for number in range(48)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    smollm.wait_until_idle()
    answer = smollm.client.generate(text="Still", stopping={"max_tokens": 2, "ignore_eos": True})
    assert len(answer.token_ids) == 2


def test_a_client_killed_in_the_middle_of_its_streams(smollm):
    script = TEST_DATA.parent / "e2e" / "endless_client.py"
    client = subprocess.Popen(
        [sys.executable, str(script), smollm.address, "8"], stdout=subprocess.PIPE, text=True
    )
    assert client.stdout.readline() == "streaming\n"
    assert smollm.client.load().running == 8
    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()
    smollm.wait_until_idle()


def test_a_slow_reader_delays_only_itself(smollm):
    """It reads one event and stops; others' whole answers come meanwhile, and then the rest of
    its own."""
    slow = Client(smollm.address, options=[("grpc.use_local_subchannel_pool", 1)])
    stream = slow.stream(
        chat=chat("Count."),
        stopping={"ignore_eos": True, "max_tokens": 400},
        output={"logprobs": 20},
    )
    answer = Answer()
    answer.add(next(stream))
    for _ in range(3):
        other = smollm.client.generate(
            chat=chat("Count."), stopping={"ignore_eos": True, "max_tokens": 200}
        )
        assert len(other.token_ids) == 200
    for response in stream:
        answer.add(response)
    assert len(answer.token_ids) == len(answer.logprobs) == 400
    slow.close()
    smollm.wait_until_idle()
