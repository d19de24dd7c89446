"""What Hydrant and its peers are compared on."""

from dataclasses import dataclass, replace

# A token's keys and values in bf16, SmolLM2-135M: 30 layers x 2 x 3 heads x 64 x 2 bytes.
KV_BYTES_PER_TOKEN = 30 * 2 * 3 * 64 * 2


@dataclass(frozen=True)
class Workload:
    name: str
    prompt: int  # tokens of each prompt, random and distinct, so that no prefix cache helps
    generated: int  # tokens of each answer, greedy, no stop token
    concurrency: int  # requests, all at once
    repeats: int  # runs within a process, of which the median counts
    kv_bytes: int = 0  # ceiling of the KV cache over all requests; 0: there is room for all
    kept_tokens: int = 0  # budget of a request, of those that evict; 0: nothing is evicted
    # Hydrant's; peers are given every precision in turn.
    serve_flags: tuple = ()
    isa: str = ""  # that all are held to, of those that can be; "": the machine's best

    @property
    def unit(self):
        return "prompt tokens/s" if self.generated == 1 else "tokens/s"

    def tokens(self, requests):
        """What `requests` answers count for."""
        return requests * (self.prompt if self.generated == 1 else self.generated)

    def fit_without_eviction(self):
        """How many whole requests the ceiling holds at once in bf16."""
        if not self.kv_bytes:
            return self.concurrency
        tokens = self.kv_bytes // KV_BYTES_PER_TOKEN
        return min(self.concurrency, tokens // (self.prompt + self.generated))

    def shortened(self):
        """A few seconds' worth that proves the machinery, not the speed."""
        return replace(
            self,
            prompt=min(self.prompt, 128),
            generated=min(self.generated, 48),
            concurrency=min(self.concurrency, 4),
            repeats=1,
            kept_tokens=min(self.kept_tokens, 128),
        )


# The file is Q4_1, whose levels int4 keeps: it loses no more than int8, and is faster for one stream.
# Keys and values in 8 bits are OpenVINO's own default, and cost some 0.0 to 0.2 %. Both:
# tests/bench/QUALITY.md.
WEIGHTS = "--weight_dtype=int4"
KV = "--kv_cache_dtype=int8"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("chat-1", 128, 128, 1, repeats=3, serve_flags=(WEIGHTS,)),
        Workload("chat-1-avx2", 128, 128, 1, repeats=3, serve_flags=(WEIGHTS,), isa="avx2"),
        Workload("chat-4", 128, 128, 4, repeats=3),
        Workload("chat-16", 128, 128, 16, repeats=2),
        Workload("chat-16-avx2", 128, 128, 16, repeats=2, isa="avx2"),
        Workload("chat-64", 128, 128, 64, repeats=1, serve_flags=(KV,)),
        Workload("long-1", 3840, 128, 1, repeats=2),
        Workload("long-4", 3840, 128, 4, repeats=1),
        Workload("prefill-2k", 2048, 1, 1, repeats=3),
        Workload("write-64", 256, 1024, 64, repeats=1, kv_bytes=100_000_000, kept_tokens=256,
                 serve_flags=(KV,)),  # fmt: skip
    )
}
