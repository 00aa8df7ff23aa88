"""OTLP: what is sent is read by the messages of OpenTelemetry's own package, and arrives at a fake of a collector."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from google.protobuf import json_format
from json_server import JsonHandler, serving
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from evalbeam.pipelines.sinks import otel
from evalbeam.pipelines.sinks.base import FinishedRun, SinkError, TryLater
from evalbeam.pipelines.sinks.otel import OtelSink, build_requests, find_address, find_headers
from evalbeam.schemas.config.sinks import OtelConfig


@dataclass
class Collector:
    """A fake of a collector: refuses its first requests, and keeps the others.

    Attributes:
        refusals: (status, value of Retry-After) of the next requests.
        says: The answer to the others.
        seen: (path, headers, body) of each.
    """

    refusals: list[tuple[int, str]] = field(default_factory=list)
    says: Any = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    url: str = ""


class _Handler(JsonHandler):
    def do_POST(self) -> None:
        collector: Collector = self.server.collector  # type: ignore[attr-defined]
        body = self.body()
        if collector.refusals:
            status, wait = collector.refusals.pop(0)
            self.send_response(status)
            self.send_header("Retry-After", wait)
            self.send_header("Location", f"{collector.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        collector.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        self.answer(collector.says)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (otel.ENDPOINT, otel.HEADERS, otel.METRICS_ENDPOINT, otel.METRICS_HEADERS, "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    with serving(_Handler, collector=found) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        yield found


def decode(bodies: Any) -> list[tuple[str, dict[str, str], Any, Any]]:
    """(metric, attributes, value, metric message) of every data point; a field that OTLP does not have is refused."""
    found = []
    for body in bodies:
        request = json_format.Parse(
            body if isinstance(body, bytes) else json.dumps(body), ExportMetricsServiceRequest()
        )
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        value = getattr(point, point.WhichOneof("value"))
                        attributes = {a.key: a.value.string_value for a in point.attributes}
                        found.append((metric.name, attributes, value, (metric, point)))
    return found


def test_gauges_are_the_means_with_their_intervals(run: FinishedRun) -> None:
    found = decode(build_requests(run))
    for statistic in ("mean", "ci_low", "ci_high"):
        sent = {(a["metric"], a["slice"]): v for n, a, v, _ in found if n == f"evalbeam.metric.{statistic}"}
        rows = [r for r in run.summary if r[statistic] is not None]
        assert sent == {(r["metric"], "".join(f"{k}={v}" for k, v in r["slice"].items())): r[statistic] for r in rows}
        assert len(sent) >= 9
    assert {a["run"] for _, a, _, _ in found} == {run.run_id}


@pytest.mark.parametrize("mean", [float("inf"), float("-inf")])
def test_an_infinite_mean_arrives(run: FinishedRun, mean: float) -> None:
    rows = [{**run.summary[0], "mean": mean}, *run.summary[1:]]
    found = decode(build_requests(replace(run, summary=rows)))
    assert next(v for n, _, v, _ in found if n == "evalbeam.metric.mean") == mean


def test_counters_are_those_of_the_manifest(run: FinishedRun) -> None:
    spent = {"answering": {"cost": 0.25, "spent": [{"input_tokens": 70, "output_tokens": 8}]}}
    spent |= {"judging": {"cost": None, "spent": [{"input_tokens": 5, "output_tokens": None}]}}
    found = decode(build_requests(replace(run, manifest={**run.manifest, **spent})))
    sent = {(n, a.get("kind"), a.get("of")): v for n, a, v, _ in found if ".metric." not in n}
    assert sent == {
        ("evalbeam.rows", None, None): 12,
        ("evalbeam.failures", "call", None): 1,
        ("evalbeam.failures", "row", None): 0,
        ("evalbeam.cost", None, "agent"): 0.25,
        ("evalbeam.tokens", "input", "agent"): 70,
        ("evalbeam.tokens", "output", "agent"): 8,
        ("evalbeam.tokens", "input", "judges"): 5,
    }
    sums = [(metric, point) for n, _, _, (metric, point) in found if ".metric." not in n]
    assert {m.sum.aggregation_temporality for m, _ in sums} == {AGGREGATION_TEMPORALITY_CUMULATIVE}
    assert all(m.sum.is_monotonic and 0 < p.start_time_unix_nano < p.time_unix_nano < time.time_ns() for m, p in sums)


def test_many_points_are_several_requests(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decode(build_requests(run))
    monkeypatch.setattr(otel, "MOST_POINTS", 4)
    bodies = list(build_requests(run))
    parts = [decode([body]) for body in bodies]
    assert all(len(part) == 4 for part in parts[:-1])
    assert [p[:3] for part in parts for p in part] == [p[:3] for p in whole]


def test_a_collector_gets_them_with_the_headers_of_the_environment(
    run: FinishedRun, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(otel.ENDPOINT, collector.url + "/base/")
    monkeypatch.setenv(otel.HEADERS, "Authorization=Bearer%20hunter2,x-team=blue")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    assert OtelSink(OtelConfig()).send(run) == {"address": collector.url + "/base/v1/metrics"}
    ((path, headers, body),) = collector.seen
    assert (path, headers["content-type"]) == ("/base/v1/metrics", "application/json")
    assert (headers["authorization"], headers["x-team"]) == ("Bearer hunter2", "blue")
    named = {a["key"]: a["value"]["stringValue"] for a in body["resourceMetrics"][0]["resource"]["attributes"]}
    assert named == {"service.name": "nightly", "service.version": run.version, "evalbeam.folder": run.output}
    assert [p[:3] for p in decode([body])]


def test_the_configured_address_comes_before_the_environments(run: FinishedRun, collector: Collector) -> None:
    OtelSink(OtelConfig(endpoint=collector.url)).send(run)
    assert [path for path, _, _ in collector.seen] == ["/v1/metrics"]
    assert find_address(None, {}) == "http://localhost:4318/v1/metrics"
    assert find_address(None, {otel.ENDPOINT: "http://a", otel.METRICS_ENDPOINT: "http://b/own"}) == "http://b/own"
    assert find_address("http://c", {otel.METRICS_ENDPOINT: "http://b/own"}) == "http://c/v1/metrics"


@pytest.mark.parametrize(("status", "kind"), [(429, TryLater), (503, TryLater), (400, SinkError), (302, SinkError)])
def test_only_what_may_pass_is_tried_again(
    run: FinishedRun, collector: Collector, status: int, kind: type[Exception]
) -> None:
    """A redirect is not followed either: the headers would reach another server."""
    collector.refusals = [(status, "7")]
    with pytest.raises(kind, match=f"HTTP {status}") as refused:
        OtelSink(OtelConfig(endpoint=collector.url)).send(run)
    assert getattr(refused.value, "seconds", 7.0) == 7.0
    assert not collector.seen


def test_points_that_a_collector_rejects_are_told(run: FinishedRun, collector: Collector) -> None:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 3
    answer.partial_success.error_message = "too old"
    collector.says = json_format.MessageToDict(answer)
    with pytest.raises(SinkError, match="rejected 3 data points: too old"):
        OtelSink(OtelConfig(endpoint=collector.url)).send(run)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (otel.ENDPOINT, "http://user:hunter2@host"),
        (otel.ENDPOINT, "host:4318"),
        (otel.METRICS_ENDPOINT, "http://host/v1/metrics?api-key=hunter2"),
        (otel.HEADERS, "hunter2"),
        (otel.HEADERS, "a=hunter2%0d%0aX: 1"),
    ],
)
def test_mistakes_in_the_environment_are_told_without_secrets(variable: str, value: str) -> None:
    read = find_headers if variable == otel.HEADERS else partial(find_address, None)
    with pytest.raises(SinkError, match=variable) as refused:
        read({variable: value})
    assert "hunter2" not in str(refused.value)
