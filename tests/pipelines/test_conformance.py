"""Published numbers of others, reproduced by whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest

from evalbeam.pipelines.run.evaluate import evaluate
from evalbeam.schemas.instance import Example
from evalbeam.schemas.result import Score
from evalbeam.transforms.metrics.base import Metric


class Good(Metric):
    """What the publishers of the home-assistant runs decided of each."""

    inputs: ClassVar = ("label",)
    range: ClassVar = (0.0, 1.0)
    binary: ClassVar = True
    sees_failures: ClassVar = True

    def score(self, example: Example) -> Score:
        return Score(float(example.get("label") == "Good"))


def test_home_assistant_slices_in_one_run(conformance: Path, tmp_path: Path) -> None:
    """588 runs of three models: good, total, percent and interval of every published slice, nothing lost."""
    path = conformance / "home_assistant" / "assist_mini_runs.jsonl"
    result = evaluate(
        str(path),
        [{"metric": Good(), "name": "good"}, {"metric": "trajectory_single_tool_use", "tool_name": "HassTurnOff"}],
        output=str(tmp_path),
        slices=[["model_id"], ["model_id", "category"]],
        statistics={"ci": "normal"},
    )
    assert result.manifest["counts"]["rows"] == 588
    found = {}
    for row in result.summary_table.to_dict("records"):
        if row["metric"] == "good" and row["slice"]:
            assert row["scored_count"] == row["row_count"]
            good, half = round(row["mean"] * row["row_count"]), (row["ci_high"] - row["ci_low"]) / 2
            found["-".join(row["slice"].values())] = (good, row["row_count"], f"{row['mean']:.1%}", row["mean"], half)
    published = json.loads((conformance / "home_assistant" / "published_slices.json").read_text())
    rows = [(r["model_id"], r) for r in published["by_model"]]
    rows += [(r["model_id-category"], r) for r in published["by_model_category"]]
    for name, row in rows:
        good, total, percent, mean, half = found[name]
        assert (good, total, percent) == (row["good"], row["total"], row["good_percent"])
        if mean + half <= 1 and mean - half >= 0:
            assert f"{half:.1%}" == row["confidence_interval"]
    assert len(found) == len(rows)
    table = result.metrics_table
    unreadable = table["tool_call_raw"].notna()
    assert (len(table), unreadable.sum()) == (588, 20)
    assert set(table[unreadable]["trajectory_single_tool_use/error"]) == {
        "missing_predicted_trajectory: the row has no predicted_trajectory"
    }
    assert set(table[~unreadable]["trajectory_single_tool_use/status"]) == {"scored"}


def test_tool_call_rows_of_the_service_in_one_run(conformance: Path, tmp_path: Path) -> None:
    """Four rows scored by the Vertex service, which rounds to two decimals: every score, mean and deviation."""
    names = ["tool_call_valid", "tool_name_match", "tool_parameter_key_match", "tool_parameter_kv_match"]
    metrics = [{"metric": name, "decimals": 2} for name in names]
    result = evaluate(str(conformance / "vertex" / "tool_call_cases.jsonl"), metrics, output=str(tmp_path))
    for row in result.metrics_table.to_dict("records"):
        for name in names:
            assert row[f"{name}/score"] == row["golden"][name], row["case"]
    published = json.loads((conformance / "vertex" / "summaries.json").read_text())["tool_calls_4_rows"]
    for name, value in published.items():
        assert result.summary_metrics[name] == pytest.approx(value, abs=1e-6)
