"""What operators look at, from a real Prometheus that scrapes a server under load."""

import base64
import json
import math
import re
import struct
import subprocess
import threading

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from hydrant_client import Client
from prometheus_process import Prometheus
from server_process import TEST_DATA, TINY_MODEL, Server, eventually

DEPLOY = TEST_DATA.parents[1] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "hydrant.json").read_text())

EVICTING = {
    "token_ids": {"ids": [7] * 100},
    "sampling": {"temperature": 0},
    "stopping": {"ignore_eos": True, "max_tokens": 100},
    "eviction": {"policy": "H2O", "budget_tokens": 32},
}


class Load:
    """Clients that ask again and again: most are answered, one in a few is refused or leaves."""

    def __init__(self, server):
        self._server = server
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(6)]
        self.errors = []

    def _ask(self, number):
        client = Client(self._server.address)
        while not self._stop.is_set():
            try:
                client.generate(**EVICTING)
                if number == 0:
                    stream = client.stream(**EVICTING)
                    next(stream)
                    stream.cancel()
                    client.generate(text="Hi", sampling={"top_p": 7})
            except grpc.RpcError as error:
                if error.code() not in (
                    grpc.StatusCode.INVALID_ARGUMENT,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    grpc.StatusCode.CANCELLED,
                ):
                    self.errors.append(error)
            except AssertionError as error:
                self.errors.append(error)
        client.close()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A Prometheus with the rules of deploy/, and the server that it scrapes, under load."""
    rules = [DEPLOY / "prometheus" / "rules.yml"]
    with Server(
        TINY_MODEL, "--kv_cache_bytes=8MB", "--audit_rate=1", "--max_num_seqs=2", "--max_queue=2"
    ) as server, Prometheus(
        tmp_path_factory.mktemp("prometheus"), server.metrics_address, rules=rules
    ) as prometheus, Load(server) as load:
        yield prometheus, server
    assert not load.errors


def queries():
    """Every query of the dashboard, with Grafana's variables filled in as it would."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$model", ".*").replace("$__rate_interval", "10s")
            yield pytest.param(expression, id=f"{panel['title']}-{target['refId']}")


def has_data(prometheus, expression):
    return any(math.isfinite(value) for _, value in prometheus.samples(expression))


@pytest.mark.parametrize("expression", list(queries()))
def test_each_query_of_the_dashboard_returns_data(scraped, expression):
    assert "$" not in expression
    prometheus, _ = scraped
    eventually(lambda: has_data(prometheus, expression), f"data for {expression}")


def test_the_dashboard_shows_what_the_load_did(scraped):
    """Not only zeros: something ran, was evicted, was refused and left."""
    prometheus, _ = scraped
    for expression in (
        "hydrant_num_requests_running",
        "rate(hydrant_generation_tokens_total[10s])",
        'rate(hydrant_kv_evicted_tokens_total{policy="h2o"}[10s])',
        'rate(hydrant_requests_rejected_total{reason="invalid_argument"}[10s])',
        'rate(hydrant_requests_rejected_total{reason="queue_full"}[10s])',
        "rate(hydrant_requests_cancelled_total[10s])",
        'rate(hydrant_attention_recall_count{policy="h2o"}[10s])',
    ):
        eventually(
            lambda: (prometheus.value(f"sum(max_over_time(({expression})[15s:1s]))") or 0) > 0,
            f"{expression} above 0",
        )


def test_the_dashboard_is_one_that_grafana_takes():
    assert DASHBOARD["schemaVersion"] >= 36 and DASHBOARD["title"] and DASHBOARD["uid"]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used == variables
    places = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & places and all(x < 24 for x, _ in cells)
        places |= cells


def test_each_metric_that_is_asked_for_exists(scraped):
    _, server = scraped
    names = server.metrics().names()
    text = json.dumps(DASHBOARD) + (DEPLOY / "prometheus" / "rules.yml").read_text()
    asked = set(re.findall(r"\bhydrant_\w+", text))
    assert asked <= names, asked - names


def test_the_rules_are_evaluated_and_none_fails(scraped):
    prometheus, _ = scraped
    recorded = (
        "hydrant:generation_tokens:rate5m", "hydrant:time_to_first_token_seconds:p95_5m",
        "hydrant:inter_token_latency_seconds:p95_5m", "hydrant:requests_refused:ratio5m",
        "hydrant:attention_recall:mean1h",
    )  # fmt: skip
    for name in recorded:
        eventually(lambda: has_data(prometheus, name), f"{name} is recorded")
    groups = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 17
    assert [rule for rule in rules if rule["health"] != "ok"] == []


def test_promtool_accepts_rules_and_configuration(tmp_path):
    for command in (
        ["test", "rules", "rules_test.yml"],
        ["check", "rules", "rules.yml"],
        ["check", "config", "prometheus.yml"],
    ):
        run = subprocess.run(
            ["promtool", *command], cwd=DEPLOY / "prometheus", capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout + run.stderr


def test_each_alert_has_a_test():
    rules, tests = (
        (DEPLOY / "prometheus" / name).read_text() for name in ("rules.yml", "rules_test.yml")
    )
    alerts = re.findall(r"alert: (\w+)", rules)
    assert alerts and set(alerts) == set(re.findall(r"alertname: (\w+)", tests))


def orca_report(server, **request):
    """The status and the report of a call's trailers.

    Asked by bare HTTP/2: gRPC's C core keeps this trailer for its balancers, and shows it to no
    application. Decoded by field numbers of the published proto, not by ours.
    """
    body = server.client.message("Generate", **request).SerializeToString()
    reply = subprocess.run(
        ["curl", "--silent", "--http2-prior-knowledge", "--noproxy", "*", "--data-binary", "@-",
         "--header", "content-type: application/grpc", "--header", "te: trailers",
         "--dump-header", "-", "--output", "/dev/null",
         f"http://{server.address}/hydrant.v1.Generation/Generate"],
        input=b"\0" + struct.pack(">I", len(body)) + body, check=True, capture_output=True,
    ).stdout.decode()  # fmt: skip
    trailers = dict(line.split(": ", 1) for line in reply.splitlines() if ": " in line)
    encoded = trailers["endpoint-load-metrics-bin"]
    proto = descriptor_pb2.FileDescriptorProto(name="orca.proto", package="o", syntax="proto3")
    report = proto.message_type.add(name="Report")
    double = descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE
    for name, number in (("mem_utilization", 2), ("application_utilization", 9)):
        report.field.add(name=name, number=number, type=double, label=1)
    for name, entry, number in (
        ("request_cost", "RequestCostEntry", 4), ("named_metrics", "NamedMetricsEntry", 8)
    ):  # fmt: skip
        nested = report.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.add(name="key", number=1, type=9, label=1)
        nested.field.add(name="value", number=2, type=double, label=1)
        report.field.add(name=name, number=number, type=11, label=3, type_name=f".o.Report.{entry}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("o.Report"))
    report = message.FromString(base64.b64decode(encoded + "=" * (-len(encoded) % 4)))
    return int(trailers["grpc-status"]), report


def test_each_call_reports_its_load(tiny):
    """In its trailers, for balancers (ORCA): finished, and refused."""
    usage = tiny.client.generate(**EVICTING).finished.usage
    status, report = orca_report(tiny, **EVICTING)
    assert status == 0
    assert report.request_cost["prompt_tokens"] == usage.prompt_tokens == 100
    assert report.request_cost["completion_tokens"] == usage.completion_tokens == 100
    assert report.request_cost["evicted_tokens"] == usage.evicted_tokens > 0
    assert report.request_cost["decode_seconds"] > 0

    status, report = orca_report(tiny, text="Hi", stopping={"max_tokens": 100_000})
    assert status == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert not report.request_cost
    tiny.wait_until_idle()
    _, report = orca_report(tiny, text="Hi", stopping={"max_tokens": 100_000})
    assert report.named_metrics == {
        "kv_cache_usage_perc": 0, "num_requests_running": 0, "num_requests_waiting": 0
    }  # fmt: skip
    assert report.mem_utilization == report.application_utilization == 0


def test_a_busy_server_reports_that_it_is_busy(one_at_a_time):
    holding = one_at_a_time.client.stream(text="Hi", stopping={"ignore_eos": True})
    next(holding)
    _, report = orca_report(one_at_a_time, text="Hi", stopping={"max_tokens": 100_000})
    assert report.named_metrics["num_requests_running"] == 1
    assert 0 < report.mem_utilization == report.named_metrics["kv_cache_usage_perc"] <= 1
    holding.cancel()
    one_at_a_time.wait_until_idle()


def test_a_trace_context_is_logged():
    """The ids of a W3C traceparent, with the request that it came with; nonsense is as none."""
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    request = {"text": "Hi", "stopping": {"max_tokens": 2}}
    with Server(TINY_MODEL, "--kv_cache_bytes=8MB", "--log_format=json") as server:
        for name, header in (("traced", f"00-{trace}-{span}-01"), ("other", f"00-{trace}-{span}")):
            server.client.generate(
                metadata=[("traceparent", header)], request_id=name, **request
            )

        def lines():
            entries = (json.loads(line) for line in server.log.splitlines() if line[:1] == "{")
            return {entry["request_id"]: entry for entry in entries if "request_id" in entry}

        eventually(lambda: len(lines()) == 2, "a line for each request")
        assert (lines()["traced"]["trace_id"], lines()["traced"]["span_id"]) == (trace, span)
        assert "trace_id" not in lines()["other"]
