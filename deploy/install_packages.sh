#!/usr/bin/env bash
# Installs the Debian packages of the groups named, as listed in packages.txt:
#   deploy/install_packages.sh build [test]
# Does nothing when all are there. Without root it names the command to run, and fails.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"

missing=()
for group in "$@"; do
  packages="$(awk -v group="$group" '$1 == group { print $2 }' "$list")"
  if [[ -z $packages ]]; then
    echo "error: $list has no group '$group'" >&2
    exit 2
  fi
  for package in $packages; do
    if [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]]; then
      missing+=("$package")
    fi
  done
done

if ((${#missing[@]} == 0)); then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "error: no apt-get here; this needs what Debian 12 calls: ${missing[*]}" >&2
  exit 1
fi
if ((EUID != 0)); then
  echo "error: packages are missing. Run this as root, then start again:" >&2
  echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "==> installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update || {
  echo "error: apt-get update failed; see its messages above" >&2
  exit 1
}
apt-get install -y --no-install-recommends "${missing[@]}" || {
  echo "error: apt-get install failed; see its messages above" >&2
  exit 1
}
