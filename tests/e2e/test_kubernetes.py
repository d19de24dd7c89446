"""The manifests: valid by Kubernetes' schemas, true to the server's flags, and of the right size."""

import json
import re
import subprocess

import kubernetes_validate
import pytest

from kustomize import identity, render
from server_process import BINARY, MODEL, TEST_DATA, Server

OVERLAYS = TEST_DATA.parents[1] / "deploy" / "kubernetes" / "overlays"
# The first and the newest that the manifests are for: preStop's sleep came with 1.30.
VERSIONS = ("1.30", "1.33")
MIB = 1 << 20
UNITS = {"KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30,
         "Mi": MIB, "Gi": 1 << 30}  # fmt: skip


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * UNITS[unit]


@pytest.fixture(params=["cpu", "gpu"])
def manifests(request):
    documents = {document["kind"]: document for document in render(OVERLAYS / request.param)}
    documents["overlay"] = request.param
    return documents


def pod(manifests):
    return manifests["Deployment"]["spec"]["template"]["spec"]


def container(manifests):
    (only,) = pod(manifests)["containers"]
    return only


def environment(manifests):
    return {entry["name"]: entry["value"] for entry in container(manifests)["env"]}


@pytest.mark.parametrize("overlay", ["cpu", "gpu"])
def test_every_document_is_valid(overlay):
    documents = render(OVERLAYS / overlay)
    assert {identity(document) for document in documents} == {
        (kind, "hydrant")
        for kind in (
            "ServiceAccount", "Service", "Deployment", "PodDisruptionBudget",
            "HorizontalPodAutoscaler", "NetworkPolicy", "PodMonitor",
        )
    }  # fmt: skip
    for document in documents:
        if document["kind"] == "PodMonitor":
            continue  # no kind of Kubernetes' own; see below
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_pod_monitor_has_its_operators_shape(manifests):
    monitor = manifests["PodMonitor"]
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(monitor["spec"]) == {"selector", "podMetricsEndpoints"}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert set(endpoint) == {"port", "path", "interval"}
    assert endpoint["path"] == "/metrics" and re.fullmatch(r"\d+s", endpoint["interval"])
    assert endpoint["port"] in {port["name"] for port in container(manifests)["ports"]}


def test_everything_selects_the_pods(manifests):
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        manifests["Deployment"]["spec"]["selector"]["matchLabels"],
        manifests["Service"]["spec"]["selector"],
        manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        manifests["PodMonitor"]["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    assert manifests["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "hydrant"
    assert pod(manifests)["serviceAccountName"] == manifests["ServiceAccount"]["metadata"]["name"]
    assert manifests["Service"]["spec"]["clusterIP"] == "None"


def test_ports_and_probes_are_those_that_the_server_listens_on(manifests):
    variables = environment(manifests)
    ports = {port["name"]: port["containerPort"] for port in container(manifests)["ports"]}
    for name, flag in (("grpc", "LISTEN"), ("health", "HEALTH_LISTEN"), ("metrics", "METRICS_LISTEN")):
        assert variables[f"HYDRANT_{flag}"] == f"0.0.0.0:{ports[name]}"
    for probe in ("startup", "readiness", "liveness"):
        assert container(manifests)[f"{probe}Probe"]["grpc"]["port"] == ports["health"]
    used = {port["targetPort"] for port in manifests["Service"]["spec"]["ports"]}
    for rule in manifests["NetworkPolicy"]["spec"]["ingress"]:
        used |= {port["port"] for port in rule["ports"]}
    assert used == {"grpc", "metrics"}
    # preStop and the drain fit into what a pod gets to end in.
    sleep = container(manifests)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = int(variables["HYDRANT_DRAIN_TIMEOUT"])
    assert sleep + drain < pod(manifests)["terminationGracePeriodSeconds"]


def test_it_is_restricted(manifests):
    """As Kubernetes' Pod Security Standard of that name asks, and with a root file system to read."""
    spec, own = pod(manifests), container(manifests)["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert all("hostPath" not in volume for volume in spec["volumes"])
    assert all(mount["readOnly"] for mount in container(manifests)["volumeMounts"])
    assert spec["automountServiceAccountToken"] is False


def test_every_variable_is_a_flag(manifests):
    flags = subprocess.run([BINARY, "serve", "--help"], capture_output=True, text=True).stdout
    for name in environment(manifests):
        assert re.search(rf"--{name.removeprefix('HYDRANT_').lower()}\b", flags), name


def test_the_memory_is_what_the_parts_need(manifests):
    """overlays/*/resources.yaml tell the sum; `hydrant inspect` knows the checkpoint's part."""
    inspection = json.loads(
        subprocess.run(
            [BINARY, "inspect", f"--model={MODEL}", "--json"], check=True, capture_output=True
        ).stdout
    )
    weights = sum(entry["bytes"] for entry in inspection["tensor_types"].values())
    variables = environment(manifests)
    kv_cache = size(variables["HYDRANT_KV_CACHE_BYTES"]) if manifests["overlay"] == "cpu" else 0
    needed = 2 * weights + kv_cache + size(variables["HYDRANT_AUDIT_BYTES"]) + 512 * MIB
    step = 256 * MIB
    memory = -(-needed // step) * step
    resources = container(manifests)["resources"]
    assert size(resources["requests"]["memory"]) == memory
    assert size(resources["limits"]["memory"]) == memory
    assert "cpu" not in resources["limits"]
    if manifests["overlay"] == "gpu":
        assert resources["limits"]["nvidia.com/gpu"] == "1"


def test_a_server_with_its_environment_keeps_below_its_memory():
    manifests = {document["kind"]: document for document in render(OVERLAYS / "cpu")}
    own = {
        name: value
        for name, value in environment(manifests).items()
        if name not in ("HYDRANT_MODEL", "HYDRANT_LISTEN", "HYDRANT_METRICS_LISTEN")
    }
    own["HYDRANT_HEALTH_LISTEN"] = "127.0.0.1:0"
    with Server(MODEL, prefix=["env", *(f"{name}={value}" for name, value in own.items())]) as server:
        for probe in ("startup", "readiness", "liveness"):
            assert container(manifests)[f"{probe}Probe"]["grpc"]["service"] == probe
        streams = [
            server.client.stream(
                token_ids={"ids": [7] * 500}, stopping={"max_tokens": 16},
                eviction={"policy": "H2O", "budget_tokens": 128, "audit": True},
            )
            for _ in range(8)
        ]  # fmt: skip
        for stream in streams:
            assert list(stream)[-1].HasField("finished")
        status = open(f"/proc/{server.process.pid}/status").read()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) << 10
        limit = size(container(manifests)["resources"]["limits"]["memory"])
        print(f"peak {peak / MIB:.0f} MiB of {limit / MIB:.0f}")
        assert peak < limit
