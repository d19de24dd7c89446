#!/usr/bin/env bash
# Builds the image of deploy/Containerfile with buildah where no registry is reachable: its base is
# a Debian 12 that debootstrap makes from Debian's mirror. Needs root, buildah and debootstrap.
#
#   deploy/build_image.sh TAG [BINARY]
#
# BINARY is a hydrant that was built on this Debian 12: minutes less. HYDRANT_MIRROR is a mirror of
# Debian, HYDRANT_BASE the name of the base, which is made once.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tag=$1
binary=${2:-}
base=${HYDRANT_BASE:-localhost/hydrant-base}
# chroot needs no runtime beside buildah; RUN reaches Debian's mirror through the host's network.
options=(--isolation=chroot --network=host)

if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
  # The mirror that this machine has its packages from.
  mirror="${HYDRANT_MIRROR:-$(apt-get indextargets --format '$(SITE) $(RELEASE)' |
    awk '$2 == "bookworm" { print $1; exit }')}"
  root="$(mktemp -d)"
  trap 'rm -rf "$root"' EXIT
  # What a binary that was built elsewhere loads, and what reads its libraries' packages.
  debootstrap --variant=minbase \
    --include=libgrpc++1.51,libprometheus-cpp-pull1.0,libpcre2-8-0,python3 \
    bookworm "$root" "$mirror"
  chmod 755 "$root"
  container="$(buildah from scratch)"
  buildah copy --quiet "$container" "$root" /
  buildah commit --quiet "$container" "$base"
  buildah rm "$container"
fi
if [[ -n $binary ]]; then
  options+=(--volume "$(dirname "$(realpath "$binary")"):/built:ro")
  options+=(--build-arg "BINARY=/built/$(basename "$binary")")
fi
buildah build "${options[@]}" -f deploy/Containerfile --build-arg "BASE=$base" -t "$tag" .
