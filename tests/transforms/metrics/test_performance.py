"""Latency and failure: what they say of answered, failed, untimed and uncalled rows."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import Metric, ScoringBatch

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "performance.json").read_text())["cases"]


def metric(name: str) -> Metric:
    return registry.build(registry.find("metric", name), {}, "metrics.0")


def example(**invocation: Any) -> Example:
    return Example(Instance("0", {}), Invocation(**invocation))


@pytest.mark.parametrize("name", ["latency_in_seconds", "failure"])
def test_golden_table(name: str) -> None:
    column = metric(name).score_batch(ScoringBatch([example(**case["invocation"]) for case in GOLDEN]))
    for i, case in enumerate(GOLDEN):
        expected, score = case["expected"][name], column.at(i)
        assert score == metric(name).score(example(**case["invocation"]))
        if isinstance(expected, str):
            assert (score.value, score.status, score.error.code) == (None, "skipped", expected), case["name"]
        else:
            assert score == Score(expected), case["name"]


def test_low_is_best_and_failed_rows_are_seen() -> None:
    assert metric("latency_in_seconds").ends() is None
    assert metric("latency_in_seconds").best == 0
    assert metric("failure").ends() == (1, 0)
    assert metric("failure").binary
    assert all(metric(name).sees_failures and not metric(name).inputs for name in ("latency_in_seconds", "failure"))


def test_published_runs(conformance: Path) -> None:
    seen = 0
    for run in json.loads((conformance / "vertex" / "trajectory_runs.json").read_text())["runs"]:
        rows = [r for r in run["rows"] if "latency_in_seconds" in r]
        status = {0.0: "ok", 1.0: "failed"}
        calls = [
            example(status=status[r["failure"]], latency_in_seconds=r["latency_in_seconds"], attempts=1) for r in rows
        ]
        for name in ("latency_in_seconds", "failure") if rows else ():
            values = [v for v in metric(name).score_batch(ScoringBatch(calls)).values if v is not None]
            assert statistics.mean(values) == pytest.approx(run["summary_metrics"][f"{name}/mean"], abs=1e-6)
            assert statistics.stdev(values) == pytest.approx(run["summary_metrics"][f"{name}/std"], abs=1e-6)
            seen += 1
    assert seen >= 6
