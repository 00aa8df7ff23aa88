"""The spans of a row's trace: times and levels as recorded, in MLflow's format and in OTLP, drawn as bars."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.report.page import write_report
from evalbeam.pipelines.report.timeline import MOST_SPANS, list_spans, list_traced
from evalbeam.pipelines.run.tables import rows_of

STEPS = [
    ("b", "a", "plan", "CHAT_MODEL", 100, 400),
    ("a", None, "agent", "AGENT", 0, 1000),
    ("d", "c", "look up", "RETRIEVER", 500, 700),
    ("c", "a", "open_door", "TOOL", 450, 800),
]
EXPECTED = [("agent", 0, 0, 1000), ("plan", 1, 100, 300), ("open_door", 1, 450, 350), ("look up", 2, 500, 200)]
"""Name, level, start and duration in milliseconds, each below its parent and otherwise by start."""
BEGAN = 1_700_000_000_000_000_000


def of_mlflow(steps: list[tuple[Any, ...]] = STEPS, failed: str = "") -> dict[str, Any]:
    """A trace as MLflow 3 writes it."""
    spans = [
        {
            "span_id": one,
            "parent_span_id": parent,
            "name": name,
            "start_time_unix_nano": BEGAN + start * 10**6,
            "end_time_unix_nano": BEGAN + end * 10**6,
            "status": {"code": "STATUS_CODE_ERROR" if name == failed else "STATUS_CODE_OK", "message": "it is stuck"},
            "attributes": {"mlflow.spanType": json.dumps(kind)},
        }
        for one, parent, name, kind, start, end in steps
    ]
    return {"info": {"trace_id": "tr-1", "state": "OK"}, "data": {"spans": spans}}


def of_otlp() -> dict[str, Any]:
    """The same in OTLP/JSON, whose times are text."""
    spans = [
        {
            "traceId": "1",
            "spanId": one,
            **({"parentSpanId": parent} if parent else {}),
            "name": name,
            "startTimeUnixNano": str(BEGAN + start * 10**6),
            "endTimeUnixNano": str(BEGAN + end * 10**6),
        }
        for one, parent, name, _, start, end in STEPS
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


@pytest.mark.parametrize(
    "row",
    [
        {"trace": json.dumps(of_mlflow())},
        {"dataset.trace": of_mlflow()},
        {key: json.dumps(value) for key, value in of_mlflow().items()},
        {"resourceSpans": json.dumps(of_otlp()["resourceSpans"])},
        {"trace": json.dumps(of_otlp())},
    ],
    ids=["column", "renamed", "whole row", "otlp", "otlp column"],
)
def test_spans_stand_below_their_parents(row: dict[str, Any]) -> None:
    found = list_spans(row, list_traced(["prompt", *row]))
    assert found is not None
    assert [(one["name"], one["level"], one["start"], one["took"]) for one in found] == EXPECTED


def test_what_is_no_trace_has_no_spans() -> None:
    assert list_traced(["prompt", "data", "response"]) == {}
    for value in (None, "", "{broken", "[" * 100_000, "{}", json.dumps({"info": {}, "data": {"spans": []}})):
        assert list_spans({"trace": value}, {"trace": "trace"}) is None


def test_spans_without_end_or_number_are_drawn() -> None:
    endless = [("a", "a", "its own parent", "TOOL", 0, 5), ("b", None, "root", "AGENT", 3, -9)]
    found = list_spans({"trace": of_mlflow(endless)}, {"trace": "trace"})
    assert [(one["name"], one["took"]) for one in found or ()] == [("root", 0)]
    many = [
        ("root", None, "root", "AGENT", 0, 9),
        *((str(i), "root", "x", "TOOL", i, i) for i in range(MOST_SPANS * 2)),
    ]
    assert len(list_spans({"trace": of_mlflow(many)}, {"trace": "trace"}) or ()) == MOST_SPANS
    deep = [(str(i), str(i - 1) if i else None, "x", "TOOL", i, i + 1) for i in range(5000)]
    assert (list_spans({"trace": of_mlflow(deep)}, {"trace": "trace"}) or ())[-1]["level"] == MOST_SPANS - 1


def test_a_row_shows_its_spans_as_bars(tmp_path: Path, browse: Callable[..., str], hostile: str) -> None:
    steps = [*STEPS, ("e", "a", hostile, hostile, 900, 1000)]
    long = {"padding": "x" * 30_000}  # the text is cut on the page, but not what is drawn of it
    traced = {**of_mlflow(steps, failed="open_door"), "extra": long}
    rows = [
        {"prompt": "one", "response": "yes", "reference": "yes", "trace": traced},
        {"prompt": "two", "response": "x"},
    ]
    result = evaluate(rows, ["exact_match"], output=str(tmp_path / "run"))
    ids = {row["prompt"]: row["instance_id"] for row in rows_of(result, "instances")}
    dom = browse(Path(write_report(result)), f"#row={ids['one']}")
    assert "<title>Evaluation " in dom
    timeline = dom.partition(">Timeline</h3>")[2].partition("</section>")[0]
    bars = re.findall(r'class="time( failed)?"[^>]*><rect x="([\d.]+)%" width="([\d.]+)%"', timeline)
    assert [(bool(failed), float(x), float(width)) for failed, x, width in bars] == [
        (False, 0, 100),
        (False, 10, 30),
        (True, 45, 35),
        (False, 50, 20),
        (False, 90, 10),
    ]
    assert "it is stuck" in timeline
    assert not re.search(r"<(script|img)\b", timeline)
    assert ">Timeline</h3>" not in browse(tmp_path / "run" / "report.html", f"#row={ids['two']}")
