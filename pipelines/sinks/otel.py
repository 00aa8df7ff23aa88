"""Sends the metrics of a run to an OpenTelemetry collector, by OTLP over HTTP with JSON.

Everything follows OpenTelemetry's specification of the protocol and of its environment variables, so no package of
OpenTelemetry is needed.
"""

from __future__ import annotations

import math
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from ...schemas.addresses import has_secret
from ...schemas.config.sinks import OtelConfig
from ...schemas.json import Json
from ..drawing.words import slice_name
from .base import FinishedRun, SinkError, TryLater

ENDPOINT, METRICS_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
HEADERS, METRICS_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"
DEFAULT_ENDPOINT = "http://localhost:4318"
MOST_POINTS = 2000
"""Data points of one request."""
_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
_PASSING = (408, 429, 500, 502, 503, 504)
"""Statuses of HTTP after which the request is sent again."""
_MOST_WAIT = 30.0
"""Seconds that a collector may ask to wait."""
_CUMULATIVE = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE of OTLP."""
_OF_MEANS = ("mean", "ci_low", "ci_high")


@dataclass(frozen=True)
class OtelSink:
    """Sends gauges of the means with their intervals, and counters of rows, failures, cost and tokens."""

    config: OtelConfig
    name: str = "otel"

    def require(self) -> None:
        """Needs nothing."""

    def send(self, run: FinishedRun) -> dict[str, Json]:
        """Sends a run, as `Sink` says: points of the same times with the same attributes are the same points."""
        address, headers = find_address(self.config.endpoint), find_headers()
        seconds = _find_timeout()
        for body in build_requests(run):
            _post(address, headers, body, seconds)
        return {"address": address}


def find_address(endpoint: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the address that metrics are sent to.

    Args:
        endpoint: Base address; default: that of the environment.
        environ: The environment.

    Raises:
        SinkError: The environment's address holds a password, or is none.
    """
    if endpoint is None and environ.get(METRICS_ENDPOINT):
        return _check(environ[METRICS_ENDPOINT], METRICS_ENDPOINT)
    if endpoint is None and environ.get(ENDPOINT):
        endpoint = _check(environ[ENDPOINT], ENDPOINT)
    return f"{(endpoint or DEFAULT_ENDPOINT).rstrip('/')}/v1/metrics"


def _check(address: str, variable: str) -> str:
    if has_secret(address):
        raise SinkError(f"{variable} holds a password or token (allowed: one in {HEADERS})")
    if not address.startswith(("http://", "https://")):
        raise SinkError(f"{variable}: found {address!r} (allowed: an address with http:// or https://)")
    return address


def find_headers(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the headers of the environment, whose values are URL-encoded; those for metrics replace the others.

    Raises:
        SinkError: One of them is no header.
    """
    found: dict[str, str] = {}
    for variable in (HEADERS, METRICS_HEADERS):
        for part in filter(str.strip, environ.get(variable, "").split(",")):
            name, equals, value = part.partition("=")
            name, value = name.strip().lower(), unquote(value.strip())
            if not (equals and name and value.isprintable()):
                raise SinkError(f"{variable} holds what is no header (allowed: name=value, separated by commas)")
            found[name] = value
    return found


def _find_timeout() -> float:
    text = os.environ.get(_TIMEOUT, "10000")
    if not text.isdecimal() or int(text) == 0:
        raise SinkError(f"{_TIMEOUT}: found {text!r} (allowed: milliseconds)")
    return int(text) / 1000


def build_requests(run: FinishedRun) -> Iterator[bytes]:
    """Yields the requests of a run as OTLP/JSON, each with at most `MOST_POINTS` data points."""
    resource = {"attributes": _attributes(_describe_resource(run))}
    scope = {"name": "evalbeam", "version": run.version}
    for metrics in _split(_build_metrics(run)):
        scoped = [{"scope": scope, "metrics": metrics}]
        yield orjson.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": scoped}]})


def _describe_resource(run: FinishedRun, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    given = (part.partition("=") for part in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    own = {"service.name": "evalbeam", "service.version": run.version, "evalbeam.folder": run.output}
    named = {"service.name": environ["OTEL_SERVICE_NAME"]} if environ.get("OTEL_SERVICE_NAME") else {}
    return {**own, **{key.strip(): unquote(value.strip()) for key, _, value in given if key.strip()}, **named}


def _build_metrics(run: FinishedRun) -> Iterator[dict[str, Any]]:
    """Yields metrics with all their data points."""
    for statistic in _OF_MEANS:
        values = [
            (row[statistic], {"metric": row["metric"], "slice": slice_name(row["slice"])})
            for row in run.summary
            if row[statistic] is not None
        ]
        points = [_point(run, value, attributes) for value, attributes in values]
        yield {"name": f"evalbeam.metric.{statistic}", "unit": "1", "gauge": {"dataPoints": points}}
    for name, unit, counted in _count(run):
        points = [_point(run, value, attributes, since=True) for value, attributes in counted if value is not None]
        kind = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
        yield {"name": f"evalbeam.{name}", "unit": unit, "sum": kind}


def _count(run: FinishedRun) -> Iterator[tuple[str, str, list[tuple[Json, dict[str, str]]]]]:
    """Yields the name, unit and points of each counter; a value is `None` if it is unknown."""
    manifest = run.manifest
    counts, sections = manifest["counts"], {"agent": "answering", "judges": "judging"}
    spent = {of: manifest.get(section) or {} for of, section in sections.items()}
    yield "rows", "{row}", [(counts["rows"], {})]
    yield "failures", "{row}", [(counts.get("failed", 0), {"kind": "call"}), (counts["rejected"], {"kind": "row"})]
    yield "cost", str(run.config.get("currency") or "1"), [(one.get("cost"), {"of": of}) for of, one in spent.items()]
    kinds = ("input", "output")
    yield (
        "tokens",
        "{token}",
        [(_tokens(spent[of], kind), {"of": of, "kind": kind}) for of in sections for kind in kinds],
    )


def _tokens(section: Mapping[str, Json], kind: str) -> int | None:
    """Returns the tokens of all answers; `None` if those of any are unknown, or there are no answers."""
    found = [one[f"{kind}_tokens"] for one in section.get("spent") or ()]
    return sum(found) if found and None not in found else None


def _point(run: FinishedRun, value: Json, attributes: Mapping[str, str], since: bool = False) -> dict[str, Any]:
    number = {"asInt": str(value)} if isinstance(value, int) else {"asDouble": _finite_or_name(value)}
    start = {"startTimeUnixNano": str(int(run.started * 1e9))} if since else {}
    named = _attributes({**attributes, "run": run.run_id})
    return {**start, "timeUnixNano": str(int(run.finished * 1e9)), **number, "attributes": named}


def _finite_or_name(value: float) -> float | str:
    """Returns what stands for a double in the JSON of protocol buffers, which has no number for an infinity."""
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def _split(metrics: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Splits metrics into requests; a metric with many points goes on in the next one."""
    found: list[dict[str, Any]] = []
    room = MOST_POINTS
    for metric in metrics:
        kind = "gauge" if "gauge" in metric else "sum"
        points: Sequence[Any] = metric[kind]["dataPoints"]
        while points:
            found.append({**metric, kind: {**metric[kind], "dataPoints": points[:room]}})
            points, room = points[room:], room - min(room, len(points))
            if not room:
                yield found
                found, room = [], MOST_POINTS
    if found:
        yield found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Leaves redirects alone: following one would pass the headers to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(address: str, headers: Mapping[str, str], body: bytes, seconds: float) -> None:
    """Sends one request.

    Raises:
        SinkError, TryLater, OSError: As `Sink.send` says.
    """
    given = {**headers, "content-type": "application/json", "user-agent": "evalbeam"}
    request = urllib.request.Request(address, body, given, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds) as answer:
            rejected = _read_rejected(answer.read(1 << 16))
    except urllib.error.HTTPError as error:
        with error:
            said = f"HTTP {error.code} of {address}: {error.read(300).decode('utf-8', 'replace')}"
        if error.code in _PASSING:
            raise TryLater(said, _read_wait(error.headers.get("Retry-After"))) from None
        raise SinkError(said) from None
    if rejected:
        raise SinkError(f"{address} rejected {rejected}")


def _read_wait(text: str | None) -> float:
    return min(float(text), _MOST_WAIT) if text is not None and text.isdecimal() else 0.0


def _read_rejected(body: bytes) -> str:
    """Returns what the answer says of rejected data points; "" if none were."""
    try:
        partial = orjson.loads(body or b"{}").get("partialSuccess") or {}
        count = int(partial.get("rejectedDataPoints") or 0)
    except (ValueError, AttributeError, TypeError):  # some backends answer with other text
        return ""
    return f"{count:,} data points: {partial.get('errorMessage') or 'no reason given'}" if count else ""
