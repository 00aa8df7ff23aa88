"""Traces as a dataset."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalbeam import Instance, RowError, evaluate
from evalbeam.transforms.agents.recorded import RecordedAgent
from evalbeam.transforms.dialects.traces import Traces
from evalbeam.transforms.dialects.traces_otel.spans import parse_trace

SAID = '[{"role": "assistant", "parts": [{"type": "text", "content": "Ho"}]}]'
OTLP = {"resourceSpans": [{"scopeSpans": [{"spans": [
    {
        "traceId": "t", "spanId": "a", "name": "agent", "startTimeUnixNano": "1000", "endTimeUnixNano": "2000001000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
            {"key": "gen_ai.input.messages", "value": {"arrayValue": {"values": [{"kvlistValue": {"values": [
                {"key": "role", "value": {"stringValue": "user"}}, {"key": "content", "value": {"stringValue": "Hi"}},
            ]}}]}}},
            {"key": "gen_ai.output.messages", "value": {"stringValue": SAID}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "2"}},
        ],
    },
]}]}]}  # fmt: skip


SPAN = OTLP["resourceSpans"][0]["scopeSpans"][0]["spans"][0]


def test_a_row_is_one_run() -> None:
    dialect = Traces()
    assert dialect.recognises(OTLP)
    call = RecordedAgent().recall(Instance("0", OTLP, dialect.fields(OTLP)))
    assert (call.response, call.latency_in_seconds, call.predicted_trajectory) == ("Ho", 2.0, ())
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)


def test_spans_of_several_traces_are_told_apart() -> None:
    (scope,) = OTLP["resourceSpans"][0]["scopeSpans"]
    other = {**scope["spans"][0], "traceId": "u"}
    row = {"resourceSpans": [{"scopeSpans": [{"spans": [scope["spans"][0], other]}]}]}
    with pytest.raises(RowError, match="spans of 2 traces"):  # what a column `trace` cannot hold
        Traces().fields(row)
    found = Traces().rows(row)
    assert [Traces().fields(each)["response"] for each in found] == ["Ho", "Ho"]
    assert [parse_trace(each).trace_id for each in found] == ["t", "u"]
    assert Traces().rows(found[0]) == [found[0]]


def test_a_piece_of_a_trace_is_refused() -> None:
    """Of a trace whose root was exported in another row; one whose root was called from elsewhere is whole."""
    spans = [{**SPAN, "spanId": "b", "parentSpanId": "z"}, {**SPAN, "spanId": "c", "parentSpanId": "y"}]
    with pytest.raises(RowError, match="parents of 2 spans are missing"):
        Traces().fields({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert Traces().fields({"resourceSpans": [{"scopeSpans": [{"spans": spans[:1]}]}]})["response"] == "Ho"


def test_an_export_of_several_traces_is_several_rows(tmp_path: Path) -> None:
    spans = [{**SPAN, "traceId": f"t{i}"} for i in range(3)]
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + "\n")
    with pytest.warns(UserWarning, match="no row was scored"):  # spans bring no reference
        result = evaluate(str(path), ["exact_match"], output=str(tmp_path / "out"))
    assert list(result.metrics_table["response"]) == ["Ho"] * 3


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"info": {}, "data": {"spans": []}}, "no spans"),
        ({"resourceSpans": []}, "no spans"),
        ({"a": 1}, "found a"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t"}]}]}]}, "spanId"),
        ({"resourceSpans": 5}, "not iterable"),
        ({"info": None, "data": {"spans": [{"span_id": "a"}]}}, "AttributeError"),
    ],
)
def test_what_is_no_trace_is_told(row: dict[str, object], words: str) -> None:
    with pytest.raises(RowError, match=words) as error:
        Traces().fields(row)
    assert error.value.code == "malformed_trace"


def test_files_of_traces_are_a_dataset(conformance: Path, tmp_path: Path) -> None:
    """All formats together, as they were written: one trace in each file, over many lines."""
    result = evaluate(
        str(conformance / "traces"),
        [{"metric": "trajectory_single_tool_use", "tool_name": "get_weather"}],
        output=str(tmp_path / "out"),
        dataset_options={"dialect": "traces"},
    )
    table = result.metrics_table
    assert len(table) == 18
    assert list(table["status"].value_counts().sort_index().items()) == [("failed", 3), ("ok", 15)]
    assert table["trajectory_single_tool_use/score"].sum() == 3
    assert table["latency_in_seconds"].notna().sum() == 15
    assert set(table[table["status"] == "failed"]["error_type"]) == {"ConnectionError", "TimeoutError"}
    assert json.loads(json.dumps(table["retrieved_context"].dropna().iloc[0]))
