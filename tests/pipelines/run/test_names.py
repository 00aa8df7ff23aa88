"""Tables and results under the names of other products, through whole runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evalbeam import EvaluationResult, Example, Metric, Score, evaluate
from evalbeam.pipelines.display.digest import make_fault_finder
from evalbeam.pipelines.report.page import render_page
from evalbeam.pipelines.run.tables import rows_of, summary_rows

ROWS = [
    {
        "request": "What is RAG?",
        "response": {"choices": [{"message": {"content": "Retrieval"}}]},
        "expected_response": "Retrieval",
        "retrieved_context": [{"doc_uri": "a", "content": "x"}, {"doc_uri": "b", "content": "y"}],
        "expected_retrieved_context": [{"doc_uri": "a"}],
        "usage": {"input_tokens": 5, "output_tokens": 2},
        "latency_in_seconds": 0.5,
    },
    {
        "request": "What is Spark?",
        "response": "An engine",
        "expected_response": "A framework",
        "latency_in_seconds": 1.5,
    },
]


@dataclass(frozen=True)
class FakeSafety(Metric):
    """A judge that needs no model: whoever speaks of engines is unsafe."""

    inputs: ClassVar[tuple[str, ...]] = ("response",)
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    outputs: ClassVar[tuple[str, ...]] = ("explanation",)

    def score(self, example: Example) -> Score:
        safe = "engine" not in example.get("response")
        return Score(float(safe), explanation="yes" if safe else "engines turn")


def run(tmp_path: Path, names: str, **output: Any) -> EvaluationResult:
    metrics = ["document_recall", "document_ratings", "agent/input_token_count", "exact_match"]
    safety = {"metric": FakeSafety(), "name": "mild"}
    options = {"column_style": names, **output}
    return evaluate(ROWS, [*metrics, safety], output=str(tmp_path / names), output_options=options)


def test_databricks(tmp_path: Path) -> None:
    result = run(tmp_path, "databricks")
    table, found = result.metrics_table, result.summary_metrics
    assert list(table["agent/latency_seconds"]) == [0.5, 1.5]
    assert list(table["failure"]) == [0, 0]
    assert list(table["metric/exact_match/value"]) == [1.0, 0.0]
    assert table["retrieval/ground_truth/document_recall"][0] == 1.0
    assert table["retrieval/ground_truth/document_ratings"][0] == ["yes", "no"]
    assert table["retrieval/ground_truth/document_recall/status"][1] == "skipped"
    assert table["metric/mild/rationale"][1] == "engines turn"
    assert not [c for c in table if c.endswith("/score")]
    assert found == {
        "row_count": 2,
        "agent/latency_seconds/average": 1.0,
        "failure/average": 0.0,
        "retrieval/ground_truth/document_recall/average": 1.0,
        "retrieval/ground_truth/document_ratings/precision/average": 0.5,
        "agent/input_token_count/average": 5.0,
        "metric/exact_match/average": 0.5,
        "metric/mild/average": 0.5,
    }


def test_mlflow_3(tmp_path: Path) -> None:
    result = run(tmp_path, "mlflow3")
    assert list(result.metrics_table["exact_match/value"]) == [1.0, 0.0]
    assert list(result.metrics_table["mild/rationale"]) == ["yes", "engines turn"]
    assert result.summary_metrics["document_recall/mean"] == 1.0
    assert result.metrics_table["document_recall/value"][0] == 1.0
    assert list(result.metrics_table["failure"]) == [0, 0]
    assert result.summary_metrics["latency_in_seconds/mean"] == 1.0


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_reports_are_the_same_under_all_names(tmp_path: Path, format_: str) -> None:
    results = [run(tmp_path / format_, names, format=format_) for names in ("flat", "databricks", "mlflow3")]
    tables = [[*rows_of(result, "instances")] for result in results]
    assert tables[0] == tables[1] == tables[2]
    finders = [make_fault_finder(result, summary_rows(result)) for result in results]
    faults = [[find(row) for row in table] for find, table in zip(finders, tables, strict=True)]
    assert faults[0] == faults[1] == faults[2]
    assert [[fault.text for fault in found] for found in faults[0] if found] == [["exact_match: 0", "mild: 0"]]
    assert all("exact_match" in render_page(result) for result in results)
