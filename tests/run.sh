#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, and runs every test:
#   1. all of it, with the server, against a real model over real sockets (preset ci)
#   2. the tests of all parts once more under ASan and UBSan, and a soak of that server
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

step "build with ASan and UBSan (preset asan)"
# Warnings were errors above; g++ 12 invents some under sanitizers.
cmake --preset asan -D HYDRANT_SERVER=ON
cmake --build --preset asan

step "its tests"
ctest --preset asan --no-tests=error --parallel "$jobs" || failed=1

step "a soak of its server for five minutes, beside the next builds"
# What is freed stays for a while, so memory tells nothing.
HYDRANT_BINARY="$PWD/build/asan/hydrant" HYDRANT_TEST_DATA="$PWD/tests/data" \
  "$venv/bin/python" -B tests/e2e/soak.py --duration=300 --rss_allowance_mb=1000 \
  > build/soak.log 2>&1 &
soak=$!

step "build of what shares state between threads, with TSan"
cmake --preset tsan -D HYDRANT_SERVER=ON
threaded=(thread_pool_test engine_test engine_queue_test grpc_server_test server_lifecycle_test
  response_buffer_test tenants_test watchdog_test log_test)
cmake --build --preset tsan --target "${threaded[@]}"
cmake --preset fuzz
cmake --build --preset fuzz

step "the soak's end"
wait "$soak" || failed=1
cat build/soak.log

step "tests with TSan"
ctest --preset tsan --no-tests=error \
  --tests-regex "^($(IFS='|' && echo "${threaded[*]}"))\$" || failed=1

step "fuzzers"
ctest --preset fuzz --no-tests=error --parallel "$jobs" || failed=1

[[ -z $failed ]]
