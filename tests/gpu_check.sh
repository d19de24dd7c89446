#!/usr/bin/env bash
# Runs the CUDA backend on the GPU of this machine, without network: every kernel against the
# reference, golden checkpoints, and NVIDIA's sanitizers on small shapes. Writes a line a step and,
# to the file named, one JSON object.
#   tests/gpu_check.sh [build folder] [result.json]
# The build folder is taken as it is where it holds the tests, else the tests are built there.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build="${1:-build/gpu}"
result="${2:-gpu_check.json}"
suites=(backend_rows_test backend_linear_test backend_attention_test backend_invariance_test
  backend_eviction_test backend_recall_test eviction_oracle_test golden_test)
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
  cmake -G Ninja -B "$build" -D CMAKE_BUILD_TYPE=Release -D HYDRANT_CUDA=ON -D HYDRANT_SERVER=OFF \
    -D HYDRANT_BENCHMARKS=OFF || exit 1
  cmake --build "$build" --target "${suites[@]}" || exit 1
fi

for suite in "${suites[@]}"; do
  step "$suite" "$build/tests/$suite" --gtest_filter="$filter"
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    for small in 'backend_rows_test *RmsNorm*' 'backend_linear_test *IsTheProduct*' \
      'backend_attention_test *ScoresGrowOnlyWhenKept*' 'backend_eviction_test *Positions*'; do
      read -r suite test <<<"$small"
      step "$tool $suite" compute-sanitizer --tool "$tool" --error-exitcode 1 \
        "$build/tests/$suite" --gtest_filter="$test/cuda"
    done
  done
else
  echo "compute-sanitizer is not on PATH: left out"
fi

gpu="$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
{
  printf '{"gpu": "%s", "failed": %d, "steps": [' "$gpu" "$failed"
  (IFS=,; printf '%s' "${steps[*]}")
  printf ']}\n'
} >"$result"
exit "$failed"
