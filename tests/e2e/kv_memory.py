"""How many sequences run at once in one small cache, with a budget and without: read off the
server's gauges while 64 requests are answered."""

import threading
import time
from dataclasses import dataclass

from server_process import Server


@dataclass
class Result:
    policy: str
    mean_running: float  # over the time that requests were in flight
    tokens_per_second: float
    evicted_tokens: int
    preemptions: int
    bounded_preemptions: int
    seconds: float
    blocks_total: int
    blocks_free_at_end: int


def measure(model, eviction, flags=(), requests=64, prompt_tokens=256, max_tokens=1024):
    """Starts a server with these flags, sends all requests at once, and samples its gauges."""
    with Server(model, *flags) as server:
        vocabulary = server.client.call("GetModelInfo").vocab_size
        usages = [None] * requests

        def ask(number):
            answer = server.client.generate(
                token_ids={
                    "ids": [(7919 * number + 31 * i) % (vocabulary - 100) + 50
                            for i in range(prompt_tokens)]
                },
                sampling={"temperature": 0},
                stopping={"ignore_eos": True, "max_tokens": max_tokens},
                eviction=eviction,
            )
            usages[number] = answer.finished.usage

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(requests)]
        start = time.monotonic()
        for thread in threads:
            thread.start()
        running = []
        while any(thread.is_alive() for thread in threads):
            running.append(server.metrics().value("hydrant_num_requests_running"))
            time.sleep(0.1)
        seconds = time.monotonic() - start
        assert all(usages), "a request failed"

        server.wait_until_idle()
        metrics = server.metrics()
        assert metrics.value("hydrant_generation_tokens_total") == requests * max_tokens
        return Result(
            policy=eviction["policy"],
            mean_running=sum(running) / len(running),
            tokens_per_second=requests * max_tokens / seconds,
            evicted_tokens=sum(usage.evicted_tokens for usage in usages),
            preemptions=int(metrics.value("hydrant_num_preemptions_total")),
            bounded_preemptions=(
                0 if eviction["policy"] == "FULL" else sum(usage.preemptions for usage in usages)
            ),
            seconds=seconds,
            blocks_total=server.client.load().kv_blocks_total,
            blocks_free_at_end=int(metrics.value("hydrant_kv_blocks", state="free")),
        )


def table(results):
    lines = ["policy  mean running  tokens/s  preemptions  free at end / total  seconds"]
    for result in results:
        lines.append(
            f"{result.policy:6}  {result.mean_running:12.1f}  {result.tokens_per_second:8.1f}  "
            f"{result.preemptions:11}  {result.blocks_free_at_end:11} / {result.blocks_total:5}  "
            f"{result.seconds:7.1f}"
        )
    return "\n".join(lines)
