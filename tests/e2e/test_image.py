"""The image of deploy/Containerfile, built by buildah without a registry, and run."""

import json
import os
import pathlib
import subprocess

import pytest

from server_process import BINARY, TEST_DATA, TINY_MODEL, Server

ROOT = TEST_DATA.parents[1]
TAG = "localhost/hydrant-e2e"

if os.geteuid() != 0:
    pytest.skip("building an image from a debootstrap root needs root", allow_module_level=True)
if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
    # As in a container without privileges.
    pytest.skip("building an image needs to mount, which is not allowed here", allow_module_level=True)


def buildah(*arguments):
    return subprocess.run(
        ["buildah", *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def image():
    """Where the image's root is mounted, and its configuration."""
    built = subprocess.run(
        [ROOT / "deploy" / "build_image.sh", TAG, BINARY], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
    configuration = json.loads(buildah("inspect", "--type", "image", TAG))["OCIv1"]["config"]
    container = buildah("from", "--pull-never", TAG)
    try:
        yield pathlib.Path(buildah("mount", container)), configuration
    finally:
        buildah("rm", container)
        buildah("rmi", TAG)


def test_it_runs_one_program_as_nobody(image):
    _, configuration = image
    assert configuration["User"] == "65532:65532"
    assert configuration["Entrypoint"] == ["/usr/bin/hydrant"]
    assert configuration["Cmd"] == ["serve"]
    assert set(configuration["ExposedPorts"]) == {"50051/tcp", "50052/tcp", "9400/tcp"}


def test_there_is_nothing_else_in_it(image):
    root, _ = image
    files = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    programs = {path for path in files if os.access(root / path, os.X_OK) and "lib" not in str(path)}
    assert programs == {pathlib.Path("usr/bin/hydrant")}
    others = {str(path) for path in files if "/lib" not in str(path)} - {"usr/bin/hydrant"}
    assert others == {
        "etc/passwd", "etc/group", "etc/nsswitch.conf", "usr/share/doc/hydrant/sbom.cdx.json"
    }  # fmt: skip
    for path in root.rglob("*"):
        if not path.is_symlink():
            assert path.stat().st_uid == 0 and path.stat().st_mode & 0o022 == 0, path
            assert path.stat().st_mode & 0o6000 == 0, path
    bill = json.loads((root / "usr/share/doc/hydrant/sbom.cdx.json").read_text())
    assert "libgrpc++1.51" in {component["name"] for component in bill["components"]}


def test_it_serves(image):
    """In its own root, read-only, as its user, without a capability."""
    root, configuration = image
    script = (
        'set -e; root=$1; model=$2; shift 3;'  # and with them the binary outside
        ' mkdir -p "$root/proc"; mount --bind "$root" "$root"; mount -o remount,bind,ro "$root";'
        ' mount -t proc proc "$root/proc"; mount --bind "$model" "$root/models";'
        ' mount -o remount,bind,ro "$root/models";'
        " exec setpriv --bounding-set=-all,+sys_chroot,+setuid,+setgid --inh-caps=-all"
        f' --no-new-privs chroot --userspec={configuration["User"]} "$root"'
        f' {configuration["Entrypoint"][0]} "$@"'
    )
    prefix = ["unshare", "--mount", "bash", "-c", script, "bash", str(root), str(TINY_MODEL)]
    with Server("/models", "--kv_cache_bytes=8MB", prefix=prefix) as server:
        answer = server.client.generate(text="Hi", stopping={"max_tokens": 4, "ignore_eos": True})
        assert answer.finished.usage.completion_tokens == 4
        status = open(f"/proc/{server.process.pid}/status").read()
        assert "Uid:\t65532\t65532\t65532\t65532" in status
        assert "CapEff:\t0000000000000000" in status
