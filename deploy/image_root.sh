#!/usr/bin/env bash
# Makes the root file system of an image: a binary, the libraries that it loads, a user, and what it
# is made of as CycloneDX.
#
#   deploy/image_root.sh BINARY FOLDER
set -euo pipefail

binary=$1
root=$2
mkdir -p "$root"/{usr/bin,etc,models,usr/share/doc/hydrant}
install -m 755 "$binary" "$root/usr/bin/hydrant"

# As Debian has it, so that a library is where the loader looks, by whichever name.
for name in bin lib lib64; do
  mkdir -p "$root/usr/$name"
  ln -sfn "usr/$name" "$root/$name"
done
if ldd "$binary" | grep 'not found' >&2; then
  echo "error: libraries of $binary are missing here" >&2
  exit 1
fi
ldd "$binary" | grep -o '/[^ ]* (0x' | cut -d' ' -f1 | sort -u | while read -r library; do
  real="$(readlink -f "$library")"
  install -D -m 644 "$real" "$root$real"
  # The name that is asked for, beside the file that it is a link to.
  asked="/usr${library#/usr}"
  mkdir -p "$root$(dirname "$asked")"
  [[ $asked == "$real" ]] || ln -sfn "$real" "$root$asked"
  # The loader itself is run.
  [[ $library != */ld-linux* ]] || chmod 755 "$root$real"
done

echo 'hydrant:x:65532:65532:hydrant:/:/usr/bin/hydrant' > "$root/etc/passwd"
echo 'hydrant:x:65532:' > "$root/etc/group"
printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"
python3 "$(dirname "${BASH_SOURCE[0]}")/sbom.py" "$binary" \
  > "$root/usr/share/doc/hydrant/sbom.cdx.json"
