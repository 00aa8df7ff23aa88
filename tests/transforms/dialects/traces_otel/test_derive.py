"""What is taken from a trace, beside what MLflow's own functions take from it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam.schemas.formats.messages import request_text, response_text
from evalbeam.transforms.dialects.traces_otel import derive
from evalbeam.transforms.dialects.traces_otel.spans import Span, Trace, parse_trace

NAMES = (
    "rag_simple",
    "multi_retriever",
    "tool_agent",
    "tool_error",
    "nested_llm_usage",
    *(f"session_turn{i}" for i in (1, 2, 3)),
)
MLFLOW = [f"mlflow_{version}/{name}" for version in ("v2", "v3") for name in NAMES]
OTLP = ["otlp/otlp_genai_agent", "otlp/otlp_genai_error"]


def both(folder: Path, name: str) -> tuple[Trace, Any]:
    """(our reading of a trace file, MLflow's)."""
    text = (folder / "traces" / f"{name}.json").read_text()
    if name.startswith("otlp"):
        return parse_trace(text), translated(text)
    from mlflow.entities import Trace as Theirs

    return parse_trace(text), Theirs.from_json(text)


def translated(text: str) -> Any:
    """OTLP/JSON as MLflow's server stores it."""
    import base64

    from google.protobuf.json_format import ParseDict
    from mlflow.entities import Span as TheirSpan
    from mlflow.entities import Trace, TraceData, TraceInfo
    from mlflow.entities.trace_location import TraceLocation
    from mlflow.entities.trace_state import TraceState
    from mlflow.tracing.otel.translation import translate_span_when_storing
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto

    spans = []
    for span in json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        ids = {k: base64.b64encode(bytes.fromhex(span[k])).decode() for k in ("traceId", "spanId", "parentSpanId")}
        proto = ParseDict({**span, **ids}, Proto())
        spans.append(TheirSpan.from_dict(translate_span_when_storing(TheirSpan.from_otel_proto(proto))))
    info = TraceInfo(spans[0].trace_id, TraceLocation.from_experiment_id("0"), 0, TraceState.OK)
    return Trace(info, TraceData(spans))


def same_text(ours: Any, theirs: str | None) -> bool:
    """Whether both say the same; MLflow shows an object as Python code or JSON, and nothing as a space."""
    if ours is None:
        return theirs == " "
    if isinstance(ours, str) and ours == theirs:
        return True
    assert theirs is not None
    ours = json.loads(ours) if isinstance(ours, str) else ours
    return any(ours == read(theirs) for read in (ast.literal_eval, json.loads) if theirs[:1] in "{[")


@pytest.mark.parametrize("name", MLFLOW)
def test_every_field_is_what_mlflow_derives(conformance: Path, name: str) -> None:
    from mlflow.genai.utils import trace_utils as theirs

    trace, other = both(conformance, name)
    assert trace.trace_id == other.info.trace_id
    assert derive.request(trace) == theirs.extract_inputs_from_trace(other)
    assert derive.response(trace) == theirs.extract_outputs_from_trace(other)
    assert same_text(request_text(derive.request(trace)), theirs.extract_request_from_trace(other))
    assert same_text(response_text(derive.response(trace)), theirs.extract_response_from_trace(other))
    assert trace.failed == (other.info.state.value == "ERROR")
    assert derive.latency_in_seconds(trace) == other.info.execution_duration / 1000
    assert trace.expectations == (theirs.extract_expectations_from_trace(other) or {})
    called = [(c.name, c.arguments or {}) for c in theirs.extract_tools_called_from_trace(other)]
    assert [(c["tool_name"], c["tool_input"]) for c in derive.trajectory(trace)] == called
    raised = [c.exception for c in theirs.extract_tools_called_from_trace(other)]
    assert [s.error and ": ".join(s.error) for s in trace.spans if s.kind == "TOOL"] == raised


@pytest.mark.parametrize("name", [*MLFLOW, *OTLP])
def test_the_passages_are_those_of_mlflows_last_top_level_retriever(conformance: Path, name: str) -> None:
    from mlflow.genai.utils.trace_utils import extract_retrieval_context_from_trace

    trace, other = both(conformance, name)
    retrieved = list(extract_retrieval_context_from_trace(other).values())
    found = derive.retrieved_context(trace)
    if name == "otlp/otlp_genai_agent":
        assert retrieved == []  # MLflow does not know the operation `retrieval`
        assert found == [{"content": "Paris climate", "doc_uri": "doc_123"}, {"content": "", "doc_uri": "doc_456"}]
        return
    assert len(derive.retrievals(trace)) == len(retrieved)
    expected = (
        [{"content": c["content"] or "", "doc_uri": c.get("doc_uri")} for c in retrieved[-1]] if retrieved else None
    )
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_tokens_are_mlflows_in_both_versions(conformance: Path, name: str) -> None:
    """Version 2 declares none: there, the same programs must give the same counts from the models' answers."""
    _, other = both(conformance, f"mlflow_v3/{name}")
    declared = {k: other.info.token_usage[k] for k in ("input_tokens", "output_tokens")}
    for version in ("v2", "v3"):
        trace, _ = both(conformance, f"mlflow_{version}/{name}")
        for one in (trace, Trace(trace.trace_id, trace.spans)):  # with and without what the whole trace declares
            found = derive.usage(one) or {}
            assert {k: found[k] for k in declared} == declared


@pytest.mark.parametrize("name", OTLP)
def test_spans_of_opentelemetry_are_read_as_mlflow_reads_them(conformance: Path, name: str) -> None:
    from mlflow.genai.utils import trace_utils as theirs
    from mlflow.tracing.utils import aggregate_usage_from_spans

    trace, other = both(conformance, name)
    by_id = {s.span_id: s for s in other.data.spans}
    for span in trace.spans:
        if span.kind == "RETRIEVER":
            continue
        one = by_id[span.span_id]
        assert (span.kind, span.parent_id) == (one.span_type, one.parent_id)
        assert (span.start, span.end) == (one.start_time_ns, one.end_time_ns)
        assert (span.inputs, span.outputs) == (one.inputs, one.outputs)
    root = other.data._get_root_span()
    assert trace.root.span_id == root.span_id
    assert trace.failed == (root.status.status_code.value == "ERROR")
    called = [
        (c.name.removeprefix("execute_tool "), c.arguments) for c in theirs.extract_tools_called_from_trace(other)
    ]
    assert [(c["tool_name"], c["tool_input"]) for c in derive.trajectory(trace)] == called
    counts = aggregate_usage_from_spans([by_id[s.span_id] for s in trace.spans])  # type: ignore[arg-type]
    assert counts is not None
    assert derive.usage(trace) == {k: counts[k] for k in ("input_tokens", "output_tokens")}
    assert derive.latency_in_seconds(trace) == (root.end_time_ns - root.start_time_ns) / 1e9


def span(span_id: str, parent: str | None = None, kind: str = "CHAIN", **fields: Any) -> Span:
    return Span(span_id, parent, fields.pop("name", span_id), kind, fields.pop("start", 1), 2, **fields)


def test_requests_of_opentelemetry_are_the_text_of_their_messages() -> None:
    asked = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": "Hello "}, {"type": "text", "content": "Ana"}]}]
    model = span("b", "a", "CHAT_MODEL", inputs=asked, outputs=said)
    silent = derive.fields_of(Trace("t", (span("a"), model)))
    assert (silent["instruction"], silent["response"]) == ("Hi", "Hello Ana")
    assert silent["prompt"] == {"messages": [{"role": "user", "content": "Hi"}]}
    told = derive.fields_of(Trace("t", (span("a", inputs="x", outputs="y"), model)))
    assert (told["instruction"], told["response"]) == ("x", "y")


def test_calls_that_only_the_model_asked_for_are_taken_where_no_tool_span_is() -> None:
    call = {"id": "1", "type": "tool_call", "name": "look", "arguments": {"at": 1}}
    model = span("b", "a", "CHAT_MODEL", outputs=[{"role": "assistant", "parts": [call]}])
    assert derive.trajectory(Trace("t", (span("a"), model))) == [{"name": "look", "arguments": {"at": 1}}]
    tool = span("c", "a", "TOOL", inputs=[1], name="run")
    assert derive.trajectory(Trace("t", (span("a"), model, tool))) == [{"tool_name": "run", "tool_input": "[1]"}]


def test_tokens_of_a_span_that_wraps_another_are_not_counted_twice() -> None:
    inner = span("b", "a", "CHAT_MODEL", usage={"input_tokens": 3, "output_tokens": 1})
    outer = span("a", None, "LLM", usage={"input_tokens": 3, "output_tokens": None})
    assert derive.usage(Trace("t", (outer, inner))) == {"input_tokens": 3, "output_tokens": None}
    assert derive.usage(Trace("t", (span("a"), inner, inner))) == {"input_tokens": 6, "output_tokens": 2}
    assert derive.usage(Trace("t", (outer, span("c", usage={"input_tokens": 1, "output_tokens": 2})))) == {
        "input_tokens": 4,
        "output_tokens": None,
    }
    assert derive.usage(Trace("t", (span("a"),))) is None


def test_spans_that_are_each_others_parents_end() -> None:
    loop = (span("a", "b", "RETRIEVER", outputs=[]), span("b", "a", usage={"input_tokens": 1, "output_tokens": 1}))
    assert derive.retrieved_context(Trace("t", loop)) == []
    derive.usage(Trace("t", loop))
