#!/usr/bin/env python3
"""Writes what a build of Hydrant is made of, as CycloneDX JSON:

    deploy/sbom.py build/deploy/hydrant > sbom.cdx.json

The components are Debian packages with their installed versions: those whose shared libraries the
binary loads, and the development packages whose headers are compiled in. Nothing else is: no
third-party source is in this tree. The same installation gives the same bytes.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

PACKAGES = pathlib.Path(__file__).with_name("packages.txt")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def loaded_libraries(binary):
    """The shared objects that the dynamic linker finds for it."""
    paths = re.findall(r"(/\S+) \(0x", output("ldd", str(binary)))
    missing = re.findall(r"(\S+) => not found", output("ldd", str(binary)))
    if missing:
        sys.exit(f"error: {binary} needs {', '.join(missing)}, which is not installed")
    return sorted(paths)


def owners(paths):
    """The packages of the files. Debian knows them as they were before /lib became a link."""
    names = {path: {path, os.path.realpath(path)} for path in paths}
    for known in names.values():
        known |= {name.removeprefix("/usr") for name in known}
    # Fails over names that it does not know, and finds the others.
    found = subprocess.run(
        ["dpkg-query", "-S", *sorted(set().union(*names.values()))], capture_output=True, text=True
    ).stdout
    packages = dict(reversed(line.split(": ")) for line in found.splitlines())
    for path, known in names.items():
        if not known & packages.keys():
            sys.exit(f"error: {path} is of no Debian package")
    return {package.split(",")[0] for package in packages.values()}


def development_packages():
    """Those of deploy/packages.txt; one that is not here was not here for the build, or is of another
    machine's, and is told."""
    lines = (line.split() for line in PACKAGES.read_text().splitlines())
    names = [words[1] for words in lines if words[:1] == ["build"] and words[1].endswith("-dev")]
    # Fails over names that it does not know, and prints the others.
    known = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *names],
        capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    installed = [name for name in names if f"{name} installed" in known]
    for name in set(names) - set(installed):
        print(f"warning: {name} is not installed here, and left out", file=sys.stderr)
    return installed


def component(package):
    fields = ("Package", "Version", "Architecture", "source:Package", "source:Version", "Homepage")
    text = output("dpkg-query", "-W", "-f", "\t".join(f"${{{f}}}" for f in fields), package)
    name, version, architecture, source, source_version, homepage = text.split("\t")
    purl = f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={architecture}"
    entry = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "properties": [
            {"name": "debian:source", "value": source},
            {"name": "debian:source-version", "value": source_version},
        ],
    }
    if homepage:
        entry["externalReferences"] = [{"type": "website", "url": homepage}]
    return entry


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    binary = pathlib.Path(sys.argv[1])
    packages = owners(loaded_libraries(binary)) | set(development_packages())
    components = sorted((component(package) for package in packages), key=lambda c: c["name"])
    root = {
        "type": "application",
        "bom-ref": "hydrant",
        "name": "hydrant",
        "version": output(str(binary.resolve()), "version").split()[-1],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(binary.read_bytes()).hexdigest()}],
    }
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
        "dependencies": [{"ref": "hydrant", "dependsOn": [c["bom-ref"] for c in components]}],
    }
    json.dump(bom, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
