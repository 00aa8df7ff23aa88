"""Captures the spans that an agent records while it is called: MLflow's traces and those of OpenTelemetry.

Spans are taken where they end, in the worker, so no collector is asked for them. MLflow records spans only if its own
tracking store can be reached. A process that has imported neither library pays nothing.
"""

from __future__ import annotations

import base64
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from weakref import WeakSet

import orjson

from ...schemas.errors import RowError
from ...schemas.json import Json
from ..dialects.traces_otel.derive import MODELS, fields_of
from ..dialects.traces_otel.spans import PACKED, parse_trace

_collected: ContextVar[list[Any] | None] = ContextVar("evalbeam_spans", default=None)
_of_trace: dict[int, list[Any]] = {}
"""Lists of spans by trace, for threads that a call starts without its context."""
_attached: WeakSet[Any] = WeakSet()
"""Tracer providers that report their spans."""
_broken: list[Any] = []
"""MLflow's tracing, if it cannot start: each further try would take milliseconds."""
_lock = Lock()
_log = logging.getLogger(__name__)
_STATES = {0: "STATUS_CODE_UNSET", 1: "STATUS_CODE_OK", 2: "STATUS_CODE_ERROR"}
_REQUEST = "mlflow.traceRequestId"


def capturing(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an agent's callable, which then returns (raw answer, spans); a coroutine function stays one."""

    def call(*args: Any) -> Any:
        spans: list[Any] = []
        with _collecting(spans):
            raw = ask(*args)
        return later(raw, spans) if inspect.isawaitable(raw) else (raw, spans)

    async def later(raw: Any, spans: list[Any]) -> Any:
        with _collecting(spans):
            return await raw, spans

    async def call_async(*args: Any) -> Any:
        return await later(ask(*args), [])

    made: Any = call_async if inspect.iscoroutinefunction(ask) else call
    made.close = getattr(ask, "close", None)
    return made


def complete(answer: dict[str, Json], spans: list[Any], max_bytes: int) -> dict[str, Json]:
    """Adds what a call's spans tell to an answer that does not tell it: passages, tool calls, tokens, and the trace.

    Args:
        answer: A result of `read_answer`.
        spans: The spans of the call, finished ones of OpenTelemetry's SDK.
        max_bytes: Size as JSON, in bytes, beyond which the trace is left out; what it tells is kept.
    """
    if not spans:
        return answer
    try:
        value = _make_trace(spans)
        trace = parse_trace(value)
    except (RowError, TypeError, ValueError):  # an agent's odd spans must not cost its answer
        return answer
    if all(span.kind == "UNKNOWN" for span in trace.spans) and not any(map(_is_mlflows, spans)):
        return answer
    told = fields_of(trace)
    if not any(span.kind in (*MODELS, "TOOL") for span in trace.spans):
        told.pop("predicted_trajectory", None)  # the spans of tools and models seem not to be recorded
    names = ("retrieved_context", "predicted_trajectory", "usage")
    found = {name: told[name] for name in names if told.get(name) is not None and answer.get(name) is None}
    extra: Any = answer.get("extra") or {}
    if "trace" not in extra and len(orjson.dumps((answer, value))) <= max_bytes:
        found["extra"] = {**extra, "trace": _add_usage(value, told.get("usage"))}
    return {**answer, **found}


@contextmanager
def _collecting(spans: list[Any]) -> Iterator[None]:
    _attach()
    token = _collected.set(spans)
    try:
        yield
    finally:
        _collected.reset(token)
        for trace_id in {span.context.trace_id for span in spans}:
            _of_trace.pop(trace_id, None)


def _attach() -> None:
    """Attaches the collector to the tracer providers of this process that it does not know yet."""
    for provider in _find_providers():
        if hasattr(provider, "add_span_processor") and provider not in _attached:
            with _lock:
                if provider not in _attached:
                    provider.add_span_processor(_Collector())
                    _attached.add(provider)


def _find_providers() -> Iterator[Any]:
    if "opentelemetry.sdk.trace" not in sys.modules:
        return
    from opentelemetry import trace

    yield trace.get_tracer_provider()
    if "mlflow.tracing.provider" in sys.modules and (found := _find_mlflows()) is not None:
        yield found


def _find_mlflows() -> Any:
    """Returns MLflow's own tracer provider; `None` if its tracing cannot start, which is logged once."""
    from mlflow.tracing import provider

    if provider in _broken:
        return None
    try:  # no public function gives the provider, and other versions may differ
        if not hasattr(provider.provider.get(), "add_span_processor"):
            provider._get_tracer(__name__)  # creates it, as the first span would
        return provider.provider.get()
    except Exception as error:
        _broken.append(provider)
        told = "what an agent traces with MLflow is not scored, since its tracing cannot start"
        _log.warning("%s (set MLFLOW_TRACKING_URI): %s: %s", told, type(error).__name__, error)
        return None


class _Collector:
    """A span processor of OpenTelemetry."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        spans = _collected.get()
        if spans is not None:
            _of_trace[span.context.trace_id] = spans

    def on_end(self, span: Any) -> None:
        spans = _collected.get()
        spans = _of_trace.get(span.context.trace_id) if spans is None else spans
        if spans is not None:
            spans.append(span)

    def _on_ending(self, span: Any) -> None:
        """Called by newer versions."""

    def shutdown(self) -> None:
        """Holds nothing."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Holds nothing."""
        return True


def _is_mlflows(span: Any) -> bool:
    return _REQUEST in (span.attributes or {})


def _make_trace(spans: list[Any]) -> dict[str, Any]:
    """Builds a trace of MLflow 3 in JSON, so that its own `Trace.from_dict` reads it too."""
    ordered = sorted(spans, key=lambda s: s.start_time)
    known = {span.context.span_id for span in ordered}
    roots = [s for s in ordered if s.parent is None or s.parent.span_id not in known]
    first, last = ordered[0].start_time, max(s.end_time for s in ordered)
    trace_id = f"tr-{roots[0].context.trace_id:032x}"
    began = datetime.fromtimestamp(first / 1e9, UTC).isoformat(timespec="milliseconds")
    failed = any(s.status.status_code.value == 2 for s in roots)
    info = {
        "trace_id": trace_id,
        "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "0"}},
        "request_time": began.replace("+00:00", "Z"),
        "execution_duration_ms": (last - first) // 1_000_000,
        "state": "ERROR" if failed else "OK",
        "trace_metadata": {},
        "tags": {},
    }
    return {"info": info, "data": {"spans": [_span_out(s, trace_id, s in roots) for s in ordered]}}


def _span_out(span: Any, trace_id: str, is_root: bool) -> dict[str, Any]:
    attributes = dict(span.attributes or {})
    if not _is_mlflows(span):  # MLflow's are JSON text already, and messages of the GenAI conventions too
        attributes = {k: v if k in PACKED and isinstance(v, str) else _dump(v) for k, v in attributes.items()}
    events = [
        {"name": e.name, "time_unix_nano": e.timestamp, "attributes": dict(e.attributes or {})} for e in span.events
    ]
    return {
        "trace_id": _encode_id(span.context.trace_id, 16),
        "span_id": _encode_id(span.context.span_id, 8),
        "parent_span_id": None if is_root else _encode_id(span.parent.span_id, 8),
        "name": span.name,
        "start_time_unix_nano": span.start_time,
        "end_time_unix_nano": span.end_time,
        "status": {"code": _STATES[span.status.status_code.value], "message": span.status.description or ""},
        "events": events,
        "attributes": {**attributes, _REQUEST: _dump(trace_id)},
    }


def _add_usage(value: dict[str, Any], usage: Json) -> dict[str, Any]:
    """Adds the tokens of the whole run, where MLflow keeps them."""
    if not isinstance(usage, Mapping) or None in usage.values():
        return value
    counts: dict[str, Any] = {"input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"]}
    told = _dump({**counts, "total_tokens": sum(counts.values())})
    return {**value, "info": {**value["info"], "trace_metadata": {"mlflow.trace.tokenUsage": told}}}


def _encode_id(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big")).decode()


def _dump(value: Any) -> str:
    return orjson.dumps(value, default=list).decode()
