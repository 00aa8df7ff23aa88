"""Parses traces in JSON: the formats of MLflow 2 and 3, and OTLP/JSON with the GenAI conventions.

| | MLflow 2 | MLflow 3 | OTLP/JSON |
|---|---|---|---|
| recognised by | `info.request_id` | `info.trace_id` | `resourceSpans` |
| attributes | each value is JSON text | the same | typed values |
| kind of a span | `mlflow.spanType` | the same | `gen_ai.operation.name` |
| inputs | `mlflow.spanInputs` | the same | `gen_ai.input.messages`, `gen_ai.tool.call.arguments` |
| outputs | `mlflow.spanOutputs` | the same | `gen_ai.output.messages`, `gen_ai.tool.call.result` |
| passages | outputs of a retriever | the same | `gen_ai.retrieval.documents` |
| tools offered | `tools` in the inputs of models | `mlflow.chat.tools` | `gen_ai.tool.definitions` |
| tokens | `usage` in the outputs of models | `mlflow.chat.tokenUsage` | `gen_ai.usage.*_tokens` |

Spans of libraries with other names for these attributes are read by `conventions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ....schemas.errors import RowError
from ....schemas.json import Json
from ....schemas.values import json_or_text, parse_json
from . import conventions

CODE = "malformed_trace"
"""Code of the errors raised here."""

SCHEMA = "mlflow.trace_schema.version"
"""Key of a trace that holds spans alone, as models served by early MLflow 2 return it."""
_ALLOWED = "an MLflow trace ({info, data: {spans}}) or OTLP/JSON ({resourceSpans}) of one trace, or its JSON text"
_INPUTS = ("mlflow.spanInputs", "gen_ai.input.messages", "gen_ai.tool.call.arguments", "gen_ai.retrieval.query.text")
_OUTPUTS = ("mlflow.spanOutputs", "gen_ai.output.messages", "gen_ai.tool.call.result", "gen_ai.retrieval.documents")
_TOOLS = ("mlflow.chat.tools", "gen_ai.tool.definitions")


@dataclass(frozen=True, slots=True)
class Span:
    """One step of a trace.

    Attributes:
        span_id: Its id, as written.
        parent_id: Id of its parent; `None` for the root.
        name: Its name; for a tool, the tool's name.
        kind: MLflow's span type: AGENT, CHAIN, CHAT_MODEL, LLM, TOOL, RETRIEVER ...; "UNKNOWN" if there is none.
        start, end: Nanoseconds since 1970; 0 if unknown.
        inputs, outputs: Its inputs and outputs; `None` if not recorded.
        usage: {input_tokens, output_tokens} that the span declares.
        error: (type, message) if the span failed.
        tools: The tools that a model was offered, as recorded; `None` if not recorded.
    """

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start: int
    end: int
    inputs: Json = None
    outputs: Json = None
    usage: dict[str, Json] | None = None
    error: tuple[str, str] | None = None
    tools: Json = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of an agent.

    Attributes:
        trace_id: Its id, as written.
        spans: Its spans, in order of their start.
        failed: True if the run ended in an error.
        milliseconds: Duration that the trace declares for the whole run.
        usage: {input_tokens, output_tokens} that the trace declares for the whole run.
        expectations: Ground truth attached to the trace, by name.
    """

    trace_id: str
    spans: tuple[Span, ...]
    failed: bool = False
    milliseconds: float | None = None
    usage: dict[str, Json] | None = None
    expectations: dict[str, Json] = field(default_factory=dict)

    @property
    def root(self) -> Span:
        """The span without a parent; if all have one, the span whose parent is in another service."""
        return ([s for s in self.spans if s.parent_id is None] or self.orphans or self.spans)[0]

    @property
    def orphans(self) -> list[Span]:
        """Spans whose parent is not in the trace."""
        known = {s.span_id for s in self.spans}
        return [s for s in self.spans if s.parent_id is not None and s.parent_id not in known]


def is_trace(value: Json) -> bool:
    """Returns true if a value is a trace in one of the formats."""
    if not isinstance(value, Mapping):
        return False
    if "resourceSpans" in value or "info" not in value:
        return "resourceSpans" in value or (SCHEMA in value and "spans" in value)
    data = value.get("data")
    return isinstance(data, Mapping) and "spans" in data


def parse_trace(value: Json) -> Trace:
    """Parses a trace from an object or its JSON text.

    Raises:
        RowError: Code "malformed_trace": the value is not a trace, has no spans, has spans of several traces, or lacks
            the parents of several spans.
    """
    if isinstance(value, str):
        try:
            value = parse_json(value.encode("utf-8", "surrogateescape"))
        except RowError as error:
            found = error.message.partition(" (allowed")[0]
            raise RowError(CODE, f"the trace is no JSON: {found} (allowed: {_ALLOWED})") from None
    if not is_trace(value):
        keys = ", ".join(sorted(value)[:10]) if isinstance(value, Mapping) else type(value).__name__
        raise RowError(CODE, f"found {keys or 'no keys'} (allowed: {_ALLOWED})")
    try:
        return _otlp(value) if "resourceSpans" in value else _mlflow(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RowError(CODE, f"{type(error).__name__}: {error} (allowed: {_ALLOWED})") from None


def _ordered(spans: Iterator[Span]) -> tuple[Span, ...]:
    found = tuple(sorted(spans, key=lambda s: s.start))
    if not found:
        raise RowError(CODE, f"the trace has no spans (allowed: {_ALLOWED})")
    return found


def _mlflow(value: Mapping[str, Any]) -> Trace:
    info = value.get("info", {})
    metadata = info.get("trace_metadata") or info.get("request_metadata") or {}
    usage = metadata.get("mlflow.trace.tokenUsage")
    served = "info" not in value  # models served by early MLflow 2 return spans alone
    spans = _ordered(_mlflow_span(s) for s in (value["spans"] if served else value["data"]["spans"]))
    return Trace(
        str(info.get("trace_id") or info.get("request_id") or ""),
        spans,
        spans[0].error is not None if served else (info.get("state") or info.get("status")) == "ERROR",
        _milliseconds(info),
        json_or_text(usage) if usage else None,
        dict(_expectations(info.get("assessments") or ())),
    )


def _milliseconds(info: Mapping[str, Any]) -> float | None:
    for key in ("execution_duration_ms", "execution_time_ms"):
        if info.get(key) is not None:
            return float(info[key])
    text = info.get("execution_duration")  # "0.416s", as protobuf writes it
    return float(text.removesuffix("s")) * 1000 if isinstance(text, str) else None


def _expectations(assessments: Any) -> Iterator[tuple[str, Json]]:
    for one in assessments:
        expected = one.get("expectation")
        if expected is None or one.get("valid") is False:
            continue
        packed = expected.get("serialized_value")
        yield one["assessment_name"], expected.get("value") if packed is None else json_or_text(packed["value"])


def _mlflow_span(span: Mapping[str, Any]) -> Span:
    context = span.get("context") or span
    status = span.get("status") or {"code": span.get("status_code"), "message": span.get("status_message")}
    given = json_or_text(span.get("attributes")) or {}
    attributes = {k: json_or_text(v) for k, v in given.items() if k in _READ or conventions.is_read(k)}
    packed = PACKED & {k for k in attributes if not k.startswith("mlflow.")}
    attributes |= {k: conventions.unpack(attributes[k]) for k in packed}  # stored as text in JSON text
    events = span.get("events") or ()
    return _span(
        attributes,
        events,
        str(context["span_id"]),
        span.get("parent_id") or span.get("parent_span_id"),
        span.get("name") or "",
        (
            span.get("start_time_unix_nano") or span.get("start_time"),
            span.get("end_time_unix_nano", span.get("end_time")),
        ),
        _error(status, events, attributes),
    )


def _otlp(value: Mapping[str, Any]) -> Trace:
    found = [
        s
        for resource in value["resourceSpans"]
        for scope in resource.get("scopeSpans") or ()
        for s in scope.get("spans") or ()
    ]
    ids = {str(s["traceId"]) for s in found}
    if len(ids) > 1:
        raise RowError(CODE, f"found spans of {len(ids)} traces (allowed: one trace in a row)")
    trace = Trace(ids.pop() if ids else "", _ordered(_otlp_span(s) for s in found))
    if len(trace.orphans) > 1 and trace.root.parent_id is not None:
        raise RowError(CODE, f"the parents of {len(trace.orphans)} spans are missing (allowed: a whole trace in a row)")
    return Trace(trace.trace_id, trace.spans, trace.root.error is not None)


def traces_in(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Splits an OTLP/JSON export into exports of one trace each, in order of first appearance."""
    found: dict[Any, list[Any]] = {}
    for resource in value["resourceSpans"]:
        for scope in resource.get("scopeSpans") or ():
            own: dict[Any, list[Any]] = {}
            for span in scope.get("spans") or ():
                own.setdefault(span.get("traceId"), []).append(span)
            for trace_id, spans in own.items():
                found.setdefault(trace_id, []).append({**resource, "scopeSpans": [{**scope, "spans": spans}]})
    return [{"resourceSpans": resources} for resources in found.values()]


def _otlp_span(span: Mapping[str, Any]) -> Span:
    attributes = {k: json_or_text(v) if k in PACKED else v for k, v in _attributes(span.get("attributes"))}
    events = [
        {"name": e.get("name"), "attributes": dict(_attributes(e.get("attributes")))} for e in span.get("events") or ()
    ]
    return _span(
        attributes,
        events,
        str(span["spanId"]),
        span.get("parentSpanId"),
        span.get("name") or "",
        (span.get("startTimeUnixNano"), span.get("endTimeUnixNano")),
        _error(span.get("status") or {}, events, attributes),
    )


def _span(
    attributes: Mapping[str, Json],
    events: Any,
    span_id: str,
    parent_id: str | None,
    name: str,
    times: tuple[Any, Any],
    error: tuple[str, str] | None,
) -> Span:
    kind, typed = attributes.get("mlflow.spanType"), True
    if kind in (None, "UNKNOWN"):
        kind, typed = conventions.kind_of(attributes) or "UNKNOWN", False
    own = "mlflow.spanInputs", "mlflow.spanOutputs"
    inputs, outputs = (attributes.get(key) for key in own)
    if kind == "TOOL":
        name = conventions.tool_name(attributes, typed) or _called(inputs) or name
    declared = attributes.get("mlflow.chat.tokenUsage")
    return Span(
        span_id,
        parent_id or None,
        name,
        str(kind),
        int(times[0] or 0),
        int(times[1] or 0),
        inputs if own[0] in attributes else conventions.inputs_of(attributes, events),
        outputs if own[1] in attributes else conventions.outputs_of(attributes, events),
        declared if isinstance(declared, dict) else conventions.usage_of(attributes),
        error,
        next((attributes[k] for k in _TOOLS if k in attributes), None),
    )


def _called(inputs: Json) -> str | None:
    """Returns the name of the tool in the inputs of a function that handles calls, as Pydantic AI records them."""
    call = inputs.get("call") if isinstance(inputs, Mapping) else None
    return str(call["tool_name"]) if isinstance(call, Mapping) and call.get("tool_name") else None


def _error(status: Mapping[str, Any], events: Any, attributes: Mapping[str, Json]) -> tuple[str, str] | None:
    if status.get("code") not in ("ERROR", "STATUS_CODE_ERROR", 2):
        return None
    raised = next((e.get("attributes") or {} for e in events if e.get("name") == "exception"), {})
    kind = raised.get("exception.type") or attributes.get("error.type") or "TraceError"
    told = str(status.get("message") or "").removeprefix(f"{kind}: ")  # MLflow puts the type before the message
    return str(kind), str(raised.get("exception.message") or told or "the trace says that it failed")


def _attributes(pairs: Any) -> Iterator[tuple[str, Json]]:
    for pair in pairs or ():
        yield pair["key"], _any_value(pair.get("value") or {})


def _any_value(value: Mapping[str, Any]) -> Json:
    """Converts an OTLP AnyValue to JSON; OTLP/JSON writes 64-bit integers as text."""
    for key, found in value.items():
        if key == "intValue":
            return int(found)
        if key == "arrayValue":
            return [_any_value(v) for v in found.get("values") or ()]
        if key == "kvlistValue":
            return dict(_attributes(found.get("values")))
        return found
    return None


PACKED = frozenset((*_INPUTS, *_OUTPUTS, *_TOOLS, "mlflow.spanType", "mlflow.chat.tokenUsage")) - {
    "gen_ai.retrieval.query.text"
}
"""Attributes whose values are JSON text in OTLP too."""
_READ = PACKED.union(("gen_ai.retrieval.query.text", "error.type"))
"""Attributes of MLflow's spans that are parsed; the others are skipped, since they may be large."""
