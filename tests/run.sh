#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, and runs every test:
#   1. all of it, with the server, against a real model over real sockets (preset ci)
#   2. the tests of all parts once more under ASan and UBSan, and a soak of that server
#   3. the same under TSan, but for what tests/CMakeLists.txt leaves out there
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

end_to_end=(-D HYDRANT_E2E_PYTHON="$venv/bin/python" -D HYDRANT_E2E_MODEL="$HYDRANT_E2E_MODEL")
# What ends requests in every way, over sockets: under sanitizers too.
sockets="^e2e_(cancel|generate|overload|phases|status)\$"

step "build (preset ci)"
# Where there is nvcc, one architecture shows that the kernels compile.
cmake --preset ci "${end_to_end[@]}" -D CMAKE_CUDA_ARCHITECTURES=90-real
cmake --build --preset ci

step "tests"
failed=
ctest --preset ci --no-tests=error --parallel "$jobs" || failed=1

step "build with ASan and UBSan (preset asan)"
# Warnings were errors above; g++ 12 invents some under sanitizers.
cmake --preset asan -D HYDRANT_SERVER=ON "${end_to_end[@]}"
cmake --build --preset asan

step "its tests"
ctest --preset asan --no-tests=error --label-exclude e2e --parallel "$jobs" || failed=1
ctest --preset asan --no-tests=error --tests-regex "$sockets" || failed=1

# What is freed stays for a while, so memory tells nothing. What runs beside it goes first: it is
# not to make the whole longer.
soak() {
  HYDRANT_BINARY="$PWD/build/$1/hydrant" HYDRANT_TEST_DATA="$PWD/tests/data" \
    TSAN_OPTIONS="suppressions=$PWD/tests/tsan.supp:ignore_noninstrumented_modules=1" \
    nice "$venv/bin/python" -B tests/e2e/soak.py --duration="$2" --rss_allowance_mb=1000 \
    > "build/soak-$1.log" 2>&1
}

step "a soak of its server for five minutes, beside the builds with TSan and of the fuzzers"
soak asan 300 &
soak=$!
cmake --preset tsan -D HYDRANT_SERVER=ON "${end_to_end[@]}"
cmake --build --preset tsan
cmake --preset fuzz
cmake --build --preset fuzz
wait "$soak" || failed=1
cat build/soak-asan.log

step "tests with TSan (preset tsan)"
ctest --preset tsan --no-tests=error --label-exclude e2e --parallel "$jobs" || failed=1
ctest --preset tsan --no-tests=error --tests-regex "$sockets" || failed=1

step "fuzzers (preset fuzz), and a soak of the server with TSan for two minutes"
soak tsan 120 &
soak=$!
ctest --preset fuzz --no-tests=error --parallel "$jobs" || failed=1
wait "$soak" || failed=1
cat build/soak-tsan.log

[[ -z $failed ]]
