"""Instances of two runs, joined by column: the same as joining their tables by pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from evalbeam import EvaluationResult, compare, evaluate
from evalbeam.pipelines.paired_runs import PairedRuns
from evalbeam.pipelines.run import columns
from evalbeam.pipelines.run.tables import rows_of

NAMES = ["exact_match", "failure"]


def make_rows(first: int, last: int, wrong: int) -> list[dict[str, Any]]:
    """Recorded answers, three trials of each row; every so manieth is wrong, another one is a failed call."""
    return [
        {
            "id": f"row {i:03d}",
            "trial": trial,
            "prompt": f"p{i}",
            "reference": "yes",
            "response": "no" if (i + trial) % wrong == 0 else "yes",
            "failure": (i + trial) % 7 == 0,
            "group": "ab"[i % 2] if i % 5 else None,
        }
        for i in range(first, last)
        for trial in (1, 2, 3)
    ]


@pytest.fixture(scope="module", params=["parquet", "jsonl", "csv"])
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> PairedRuns:
    folder = tmp_path_factory.mktemp("runs")
    of_table: Any = {"output_options": {"format": request.param, "shards": 4}}
    of_rows: Any = {"dataset_options": {"id": "id", "trial": "trial"}}
    before, after = make_rows(0, 90, 4), make_rows(10, 100, 3)
    return PairedRuns(
        evaluate(before, ["exact_match"], output=folder / "before", **of_table, **of_rows),
        evaluate(after, ["exact_match"], output=folder / "after", **of_table, **of_rows),
    )


def read(run: EvaluationResult) -> pd.DataFrame:
    """Mean scores and the first group of each instance."""
    table = run.metrics_table.rename(columns={"exact_match/score": "exact_match"})
    table["failure"] = table["failure"].astype(float)
    return table.groupby("instance_id").agg({**dict.fromkeys(NAMES, "mean"), "group": "first"})


@pytest.mark.parametrize("size", [1, 1 << 16])
def test_they_are_those_of_the_tables_joined(runs: PairedRuns, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", size)
    monkeypatch.setattr(columns, "_ROWS_OF_TEXT", min(size * 50, 1024))
    blocks = list(runs.side_by_side(NAMES, ["group"]))
    tables = [read(run) for run in runs]
    for side, table in enumerate(tables):
        sides = [block[side] for block in blocks]
        assert [one for some in sides for one in some.ids.to_pylist()] == list(table.index)
        for name in NAMES:
            found = np.concatenate([some.scores[name] for some in sides])
            assert found == pytest.approx(table[name].to_numpy(), nan_ok=True)
        groups = [one for some in sides for one in some.columns["group"].to_pylist()]
        assert groups == [None if one != one else one for one in table["group"]]
    pairs = [
        (old, new.ids[int(place)].as_py())
        for old_side, new, places in blocks
        for old, place in zip(old_side.ids.to_pylist(), places, strict=True)
        if place >= 0
    ]
    common = [one for one in tables[0].index if one in tables[1].index]
    assert pairs == [(one, one) for one in common]


def test_positions_are_those_of_the_first_trials(runs: PairedRuns) -> None:
    ids = [row["instance_id"] for row in rows_of(runs.after, "instances")]
    for block in runs.side_by_side(["exact_match"], []):
        for id_, position in zip(block.new.ids.to_pylist(), block.new.positions.tolist(), strict=True):
            assert ids.index(id_) == position


def test_slices_are_those_of_the_second_run_however_the_table_is_read(
    runs: PairedRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = runs.before.output, runs.after.output
    whole = compare(*paths, slices=[["group"]])
    assert {dict(one.slice).get("group") for one in whole.differences if one.slice} == {None, "a", "b"}
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 1)
    monkeypatch.setattr(columns, "_ROWS_OF_TEXT", 7)
    assert compare(*paths, slices=[["group"]]) == whole
