#!/usr/bin/env python3
"""64 requests of 256 + 1,024 tokens in 100 MB of KV cache, with H2O at 256 tokens and without.

Takes many minutes. Run it with the environment that tests/run.sh makes:

  HYDRANT_BINARY=build/ci/hydrant HYDRANT_E2E_MODEL="$(deploy/fetch_model.sh)" \\
    HYDRANT_TEST_DATA=tests/data build/venv/bin/python tests/bench/kv_memory.py
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

from kv_memory import measure, table  # noqa: E402
from server_process import MODEL  # noqa: E402

parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
)
parser.add_argument("--kv_cache_bytes", default="100MB")
parser.add_argument("--requests", type=int, default=64)
parser.add_argument("--prompt_tokens", type=int, default=256)
parser.add_argument("--max_tokens", type=int, default=1024)
parser.add_argument("--budget_tokens", type=int, default=256)
arguments = parser.parse_args()

results = []
for policy in ("FULL", "H2O"):
    eviction = {"policy": policy}
    if policy == "H2O":
        eviction["budget_tokens"] = arguments.budget_tokens
    results.append(
        measure(
            MODEL,
            eviction,
            (f"--kv_cache_bytes={arguments.kv_cache_bytes}",),
            requests=arguments.requests,
            prompt_tokens=arguments.prompt_tokens,
            max_tokens=arguments.max_tokens,
        )
    )
print(table(results))
full, h2o = results
print(
    f"H2O / FULL: {h2o.mean_running / full.mean_running:.2f} x running, "
    f"{h2o.tokens_per_second / full.tokens_per_second:.2f} x tokens/s"
)
