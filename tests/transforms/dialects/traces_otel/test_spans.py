"""The formats of traces, beside those MLflow reads too (test_derive.py)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalbeam.transforms.dialects.traces_otel.spans import is_trace, parse_trace, traces_in


def mlflow(info: dict[str, Any], **span: Any) -> dict[str, Any]:
    return {"info": info, "data": {"spans": [{"span_id": "a", "name": "agent", **span}]}}


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    given = [{"traceId": "t", "spanId": str(i), **span} for i, span in enumerate(spans)]
    return {"resourceSpans": [{"scopeSpans": [{"spans": given}]}]}


@pytest.mark.parametrize(
    ("info", "milliseconds"),
    [
        ({"execution_time_ms": 12}, 12.0),
        ({"execution_duration_ms": 0}, 0.0),
        ({"execution_duration": "0.416s"}, 416.0),
        ({}, None),
    ],
)
def test_durations(info: dict[str, Any], milliseconds: float | None) -> None:
    assert parse_trace(mlflow(info)).milliseconds == milliseconds


def test_typed_values_of_opentelemetry() -> None:
    values = {
        "gen_ai.operation.name": {"stringValue": "retrieval"},
        "gen_ai.retrieval.query.text": {"stringValue": "42"},
        "gen_ai.retrieval.documents": {
            "arrayValue": {
                "values": [{"kvlistValue": {"values": [{"key": "score", "value": {"doubleValue": 0.5}}]}}, {}]
            }
        },
        "gen_ai.usage.input_tokens": {"intValue": "7"},
    }
    (span,) = parse_trace(otlp({"attributes": [{"key": k, "value": v} for k, v in values.items()]})).spans
    assert (span.kind, span.inputs, span.outputs) == ("RETRIEVER", "42", [{"score": 0.5}, None])
    assert span.usage == {"input_tokens": 7, "output_tokens": None}


def test_errors_are_those_of_exceptions_then_of_the_status() -> None:
    exception = {"name": "exception", "attributes": [{"key": "exception.type", "value": {"stringValue": "KeyError"}}]}
    status = {"code": 2, "message": "no key"}
    assert parse_trace(otlp({"status": status, "events": [exception]})).root.error == ("KeyError", "no key")
    assert parse_trace(otlp({"status": status})).root.error == ("TraceError", "no key")
    assert parse_trace(otlp({"status": {"code": "STATUS_CODE_ERROR"}})).failed
    assert not parse_trace(otlp({"status": {"code": 1}})).failed


def test_spans_alone_as_models_served_by_early_mlflow_return_them() -> None:
    told = {"mlflow.spanType": "UNKNOWN", "mlflow.spanInputs": {"x": 2, "y": 5}, "mlflow.spanOutputs": 64}
    span = {"name": "predict", "context": {"trace_id": "1", "span_id": "2"}, "parent_id": None, "events": []}
    span |= {"start_time": 1, "end_time": 9, "status_code": "OK", "status_message": "", "attributes": json.dumps(told)}
    given = {"mlflow.trace_schema.version": 2, "app_version_id": None, "spans": [span]}
    for form in (given, json.dumps(given)):
        trace = parse_trace(form)
        assert (trace.root.inputs, trace.root.outputs, trace.failed) == ({"x": 2, "y": 5}, 64, False)
    assert parse_trace({**given, "spans": [{**span, "status_code": "ERROR"}]}).failed


def test_attributes_that_are_no_json_stand_for_themselves() -> None:
    trace = parse_trace(mlflow({}, attributes={"mlflow.spanInputs": "plain", "mlflow.spanOutputs": '{"a": 1}'}))
    assert (trace.root.inputs, trace.root.outputs) == ("plain", {"a": 1})


def test_ground_truth_that_was_withdrawn_is_not_read() -> None:
    expected = {"assessment_name": "expected_response", "expectation": {"value": "x"}}
    other = {"assessment_name": "expected_facts", "expectation": {"value": ["y"]}, "valid": False}
    feedback = {"assessment_name": "safety", "feedback": {"value": "yes"}}
    assert parse_trace(mlflow({"assessments": [expected, other, feedback]})).expectations == {"expected_response": "x"}


def test_the_root_has_no_parent_or_one_elsewhere() -> None:
    child, root = {"parentSpanId": "1", "startTimeUnixNano": "1"}, {"startTimeUnixNano": "2"}
    assert parse_trace(otlp(child, root)).root.span_id == "1"
    assert parse_trace(otlp(child, {**root, "parentSpanId": "gateway"})).root.span_id == "1"


def test_what_is_no_trace() -> None:
    assert not any(map(is_trace, ("x", None, {"info": {}}, {"data": {"spans": []}}, {"info": {}, "data": []})))


def test_an_export_is_cut_into_its_traces() -> None:
    export = otlp({"traceId": "a"}, {"traceId": "b"}, {"traceId": "a"})
    export["resourceSpans"] += otlp({"traceId": "b", "spanId": "9"})["resourceSpans"]
    found = [parse_trace(one) for one in traces_in(export)]
    assert [(t.trace_id, [s.span_id for s in t.spans]) for t in found] == [("a", ["0", "2"]), ("b", ["1", "9"])]
