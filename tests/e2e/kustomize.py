"""The part of Kustomize that deploy/kubernetes uses; anything else in it is an error.

resources (files and folders), patches (files, strategic merge, found by kind and name) and images
(newName, newTag).
"""

import yaml

# What a list's entries are merged by; other lists are replaced whole.
MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def merge(base, patch, field=None):
    if isinstance(base, dict) and isinstance(patch, dict):
        merged = dict(base)
        for key, value in patch.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = merge(base[key], value, key) if key in base else value
        return merged
    if isinstance(base, list) and isinstance(patch, list) and field in MERGE_KEYS:
        key = MERGE_KEYS[field]
        patches = {entry[key]: entry for entry in patch}
        kept = [
            merge(entry, patches.pop(entry[key])) if entry[key] in patches else entry
            for entry in base
        ]
        return list(patches.values()) + kept
    return patch


def identity(document):
    return document["kind"], document["metadata"]["name"]


def set_images(node, images):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "image" and isinstance(value, str):
                name = value.rsplit(":", 1)[0]
                for image in images:
                    if image["name"] == name:
                        node[key] = f"{image.get('newName', name)}:{image['newTag']}"
            set_images(value, images)
    elif isinstance(node, list):
        for entry in node:
            set_images(entry, images)


def render(folder):
    """The documents of a folder with a kustomization.yaml."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    known = {"apiVersion", "kind", "resources", "patches", "images"}
    assert set(kustomization) <= known, set(kustomization) - known
    rendered = []
    for name in kustomization["resources"]:
        path = folder / name
        rendered += render(path) if path.is_dir() else documents(path)
    for entry in kustomization.get("patches", []):
        assert set(entry) == {"path"}, entry
        for patch in documents(folder / entry["path"]):
            places = [i for i, d in enumerate(rendered) if identity(d) == identity(patch)]
            assert len(places) == 1, f"{entry}: {identity(patch)} is {len(places)} times there"
            rendered[places[0]] = merge(rendered[places[0]], patch)
    set_images(rendered, kustomization.get("images", []))
    return rendered
