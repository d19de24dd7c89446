#!/usr/bin/env bash
# Compares Hydrant with its peers on this machine: builds, fetches the default model, installs the
# peers (into build/peers; gigabytes, and llama.cpp is built), runs every workload by turns, and
# writes the tables into RESULTS.md.
#   tests/bench/compare.sh                     everything: hours
#   tests/bench/compare.sh --workloads chat-1,chat-16 --peers llama.cpp --pairs 3
#   tests/bench/compare.sh --quick             tiny workloads, to see that everything runs
#   tests/bench/compare.sh --help              all flags
# Let nothing else run meanwhile. HYDRANT_BINARY=PATH takes that binary instead of building one.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Before anything is installed or built.
for flag in "$@"; do
  if [[ $flag == --help ]]; then exec python3 -B tests/bench/compare/compare.py --help; fi
done

deploy/install_packages.sh build
model="$(deploy/fetch_model.sh)"
binary="${HYDRANT_BINARY:-}"
if [[ -z $binary ]]; then
  cmake --preset release -D HYDRANT_SERVER=ON >&2
  cmake --build --preset release --target hydrant >&2
  binary=build/release/hydrant
fi
export PYTHONDONTWRITEBYTECODE=1
exec python3 tests/bench/compare/compare.py --hydrant "$(realpath "$binary")" --model "$model" "$@"
