#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, and runs every test:
#   1. all of it, with the server, against a real model over real sockets (preset ci)
#   2. kernels, scheduler and engine once more without gRPC, under ASan and UBSan
#   3. what shares state between threads, under TSan
#   4. the fuzzers of everything that parses foreign bytes, for a short while each
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs="$(nproc)"
venv="$PWD/build/venv"
requirements=tests/e2e/requirements.txt

step() {
  echo
  echo "==> $(date +%T) $*"
}

step "packages"
deploy/install_packages.sh build test

step "default model"
HYDRANT_E2E_MODEL="$(deploy/fetch_model.sh)"
export HYDRANT_E2E_MODEL

step "Python environment for the end-to-end tests"
if ! cmp -s "$requirements" "$venv/installed.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --requirement "$requirements"
  cp "$requirements" "$venv/installed.txt"
fi

step "build (preset ci)"
# Where there is nvcc, one architecture shows that the kernels compile.
cmake --preset ci -D HYDRANT_E2E_PYTHON="$venv/bin/python" -D HYDRANT_E2E_MODEL="$HYDRANT_E2E_MODEL" \
  -D CMAKE_CUDA_ARCHITECTURES=90-real
cmake --build --preset ci

step "tests"
failed=
ctest --preset ci --no-tests=error --parallel "$jobs" || failed=1

step "build of kernels, scheduler and engine: without gRPC, with ASan and UBSan"
# Warnings were errors above; g++ 12 invents some under sanitizers.
cmake --preset asan -B build/asan-core -D HYDRANT_SERVER=OFF -D HYDRANT_BENCHMARKS=OFF
cmake --build build/asan-core

step "their tests"
# One at a time: their threads spin at barriers, and sanitized they are slow enough.
ctest --test-dir build/asan-core --output-on-failure --no-tests=error || failed=1

step "build of what shares state between threads, with TSan"
# Line numbers are enough to read a report, and spare a third of the time.
cmake --preset tsan -B build/tsan-threads -D HYDRANT_BENCHMARKS=OFF -D CMAKE_CXX_FLAGS_DEBUG=-g1
threaded=(engine_test engine_queue_test grpc_server_test server_lifecycle_test response_buffer_test
  tenants_test watchdog_test log_test)
cmake --build build/tsan-threads --target "${threaded[@]}"

step "its tests"
ctest --test-dir build/tsan-threads --output-on-failure --no-tests=error \
  --tests-regex "^($(IFS='|' && echo "${threaded[*]}"))\$" || failed=1

step "fuzzers"
cmake --preset fuzz
cmake --build --preset fuzz
ctest --preset fuzz --no-tests=error --parallel "$jobs" || failed=1

[[ -z $failed ]]
