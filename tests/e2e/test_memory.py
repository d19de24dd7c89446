"""Memory that eviction frees is memory that the next request runs in.

All sizes are about a quarter of what tests/bench/kv_memory.py measures, so that this takes a
minute or two.
"""

from kv_memory import measure, table
from server_process import MODEL


def test_a_budget_lets_more_run_at_once():
    flags = ("--kv_cache_bytes=25MB",)
    size = {"prompt_tokens": 64, "max_tokens": 256}
    full = measure(MODEL, {"policy": "FULL"}, flags, **size)
    h2o = measure(MODEL, {"policy": "H2O", "budget_tokens": 48}, flags, **size)
    print(table([full, h2o]))
    assert h2o.mean_running >= 2.5 * full.mean_running
    assert h2o.bounded_preemptions == h2o.preemptions == 0
    assert full.evicted_tokens == 0 < h2o.evicted_tokens
    assert full.blocks_free_at_end == full.blocks_total == h2o.blocks_free_at_end
