#!/usr/bin/env bash
# What each CUDA kernel takes of a multiprocessor, as ptxas counts it: a Markdown table of registers,
# spilled bytes and static shared memory, for sm_80 and sm_90; of a kernel's KV dtypes or activations
# the one that takes most. Fails where a kernel spills.
#   tests/cuda_resources.sh [nvcc]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
nvcc="${1:-nvcc}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

for arch in sm_80 sm_90; do
  for source in kernels/cuda/*.cu; do
    "$nvcc" -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -arch="$arch" -I. -Xptxas -v \
      -cubin -o "$work/kernels.cubin" "$source" 2>&1 | sed "s/^/$arch /"
  done
done | c++filt >"$work/log"

awk '
  /Compiling entry function/ {
    arch = $1
    name = $0
    sub(/.*entry function ./, "", name)
    sub(/. for .sm_.*/, "", name)
    gsub(/\047/, "", name)
    gsub(/hydrant::kernels::(cuda::)?/, "", name)
    gsub(/_NV_ANON_NAMESPACE::|\(anonymous namespace\)::|_GLOBAL__N__[0-9a-zA-Z_]*::/, "", name)
    sub(/^void /, "", name)
    gsub(/\((KvDType|Activation)\)[0-9]+(, )?/, "", name)
    gsub(/\(bool\)|\(int\)/, "", name)
    if (name ~ />\(/) sub(/>\(.*$/, ">", name); else sub(/\(.*$/, "", name)
  }
  /spill stores/ {
    spilled = 0
    for (i = 1; i <= NF; ++i) if ($i == "bytes" && $(i + 1) == "spill") spilled += $(i - 1)
  }
  /Used [0-9]+ registers/ {
    shared = 0
    for (i = 1; i <= NF; ++i) {
      if ($i == "registers," || $i == "registers") registers = $(i - 1) + 0
      if ($i == "bytes" && $(i + 1) ~ /^smem/) shared = $(i - 1) + 0
    }
    sub(/<(true|false)?>$/, "", name)
    if (!(name in seen)) { order[++count] = name; seen[name] = 1 }
    if (registers > uses[name, arch]) uses[name, arch] = registers
    if (spilled > spills[name, arch]) spills[name, arch] = spilled
    if (shared > memory[name]) memory[name] = shared
    if (spilled > 0) failed = 1
  }
  END {
    print "| kernel | registers sm_80 | spilled | registers sm_90 | spilled | shared bytes |"
    print "| --- | ---: | ---: | ---: | ---: | ---: |"
    for (i = 1; i <= count; ++i) {
      name = order[i]
      printf "| `%s` | %d | %d | %d | %d | %d |\n", name, uses[name, "sm_80"],
        spills[name, "sm_80"], uses[name, "sm_90"], spills[name, "sm_90"], memory[name]
    }
    exit failed
  }
' "$work/log"
