"""The bill of materials names every library that the binary loads, with its installed version."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys

import pytest

from server_process import BINARY, TEST_DATA

SCRIPT = TEST_DATA.parents[1] / "deploy" / "sbom.py"


@pytest.fixture(scope="module")
def text():
    return subprocess.run(
        [sys.executable, SCRIPT, BINARY], check=True, capture_output=True, text=True
    ).stdout


def test_it_is_cyclonedx(text):
    bom = json.loads(text)
    assert (bom["bomFormat"], bom["specVersion"], bom["version"]) == ("CycloneDX", "1.5", 1)
    root = bom["metadata"]["component"]
    assert root["hashes"][0]["content"] == hashlib.sha256(
        pathlib.Path(BINARY).read_bytes()
    ).hexdigest()
    assert root["version"] in subprocess.run([BINARY, "version"], capture_output=True, text=True).stdout
    references = [component["bom-ref"] for component in bom["components"]]
    assert len(set(references)) == len(references)
    assert bom["dependencies"] == [{"ref": root["bom-ref"], "dependsOn": references}]
    for component in bom["components"]:
        assert component["type"] == "library" and component["name"] and component["version"]
        assert re.fullmatch(r"pkg:deb/debian/[a-z0-9.+-]+@[^?+:]+\?arch=(amd64|arm64|all)", component["purl"])


def test_what_is_loaded_and_compiled_in_is_listed(text):
    components = {component["name"]: component["version"] for component in json.loads(text)["components"]}
    for name in ("libc6", "libgrpc++1.51", "libprotobuf32", "libssl3", "nlohmann-json3-dev", "libcli11-dev"):
        installed = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Version}", name], check=True, capture_output=True, text=True
        ).stdout
        assert components[name] == installed


def test_what_is_no_binary_is_refused(tmp_path):
    run = subprocess.run([sys.executable, SCRIPT, tmp_path / "none"], capture_output=True)
    assert run.returncode != 0
