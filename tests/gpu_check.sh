#!/usr/bin/env bash
# Runs the CUDA backend on the GPU of this machine, without network: every kernel against the
# reference, golden checkpoints, NVIDIA's sanitizers on small shapes, an answer of the program
# itself, and rates at the shapes of a model of 8 G parameters. Writes a line a step and, to the
# file named, one JSON object.
#   tests/gpu_check.sh [build folder] [result.json]
# The build folder is taken as it is where it holds the tests, else the tests are built there. The
# program answers where it was built (HYDRANT_SERVER=ON): from a golden checkpoint, and from that of
# HYDRANT_GPU_CHECKPOINT where it is set (tests/bench/random_checkpoint.py --shape=8b makes one).
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="${1:-build/gpu}"
result="${2:-gpu_check.json}"
suites=(backend_rows_test backend_linear_test backend_attention_test backend_invariance_test
  backend_sampling_test backend_eviction_test backend_recall_test eviction_oracle_test golden_test)
filter='*cuda*:-*emulated*'
steps=()
failed=0

# step NAME COMMAND...: at most two minutes.
step() {
  local name="$1" begin end status log
  shift
  log="$(mktemp)"
  begin="$(date +%s.%N)"
  timeout 120 "$@" >"$log" 2>&1
  status=$?
  end="$(date +%s.%N)"
  # A filter that matches nothing proves nothing.
  if grep -q "Running 0 tests" "$log"; then status=125; fi
  if [[ $status -ne 0 ]]; then
    failed=1
    tail -n 40 "$log"
  fi
  rm -f "$log"
  steps+=("$(awk -v n="$name" -v s="$status" -v b="$begin" -v e="$end" \
    'BEGIN { printf "{\"step\": \"%s\", \"status\": %d, \"seconds\": %.2f}", n, s, e - b }')")
  echo "$name: status $status"
}

if [[ ! -x $build/tests/backend_rows_test ]]; then
  cmake -G Ninja -B "$build" -D CMAKE_BUILD_TYPE=Release -D HYDRANT_CUDA=ON -D HYDRANT_SERVER=OFF ||
    exit 1
  cmake --build "$build" --target "${suites[@]}" device_bench || exit 1
fi

for suite in "${suites[@]}"; do
  step "$suite" "$build/tests/$suite" --gtest_filter="$filter"
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    for small in 'backend_rows_test *RmsNorm*' 'backend_linear_test *IsTheProduct*' \
      'backend_attention_test *ScoresGrowOnlyWhenKept*' 'backend_eviction_test *Positions*' \
      'backend_sampling_test *NothingIsChosen*'; do
      read -r suite test <<<"$small"
      step "$tool $suite" compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$build/tests/$suite" --gtest_filter="$test/cuda"
    done
  done
else
  echo "compute-sanitizer is not on PATH: left out"
fi

if [[ -x $build/hydrant ]]; then
  for checkpoint in tests/data/golden/llama-gqa "${HYDRANT_GPU_CHECKPOINT:-}"; do
    [[ -z $checkpoint ]] ||
      step "generate $(basename "$checkpoint")" "$build/hydrant" generate --device=cuda \
        --model="$checkpoint" --max_tokens=32 --ignore_eos "The sky is"
  done
else
  echo "$build/hydrant is not built: left out"
fi

# Rates, in JSON of its own: stream_gb_per_s is what the others' GB/s are held against.
rates="$(mktemp)"
step device_bench sh -c 'exec "$0" cuda >"$1"' "$build/tests/bench/device_bench" "$rates"
# Half a JSON where it was stopped on its way.
[[ $(tail -c 2 "$rates") == "}" ]] || echo null >"$rates"

gpu="$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
{
  printf '{"gpu": "%s", "failed": %d, "steps": [' "$gpu" "$failed"
  (IFS=,; printf '%s' "${steps[*]}")
  printf '], "rates": %s}\n' "$(cat "$rates")"
} >"$result"
rm -f "$rates"
exit "$failed"
