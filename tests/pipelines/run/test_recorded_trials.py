"""Recorded trials: rows with the same id and different numbers are trials, as if an agent had been called."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from evalbeam import evaluate
from evalbeam.pipelines.display.run_text import render
from evalbeam.schemas.errors import ConfigError

TAU_BENCH = Path(__file__).parents[4] / "shared" / "conformance" / "tau_bench" / "runs.jsonl"
NAMED = {"id": "task", "trial": "attempt"}
METRIC = {"metric": "exact_match", "pass_k": [1, 3]}


def recorded(column: str = "attempt", tasks: int = 12, trials: int = 3) -> list[dict[str, Any]]:
    """Rows of which task i has the reference in as many trials as i modulo 4 says."""
    rows = [
        {"task": f"t{i}", column: n, "prompt": f"{i}", "reference": "yes", "response": "yes" if n < i % 4 else "no"}
        for i in range(tasks)
        for n in range(trials)
    ]
    random.Random(0).shuffle(rows)
    return rows


def run(rows: Any, output: Path, **options: Any) -> Any:
    given = {"dataset_options": NAMED, **options}
    return evaluate(rows, [given.pop("metric", METRIC)], output=output, **given)


def figures(found: Any) -> pd.DataFrame:
    table = found.summary_table
    return table[table["metric"].str.startswith("exact_match")].drop(columns="slice").reset_index(drop=True)


def test_they_are_what_calls_would_have_been(tmp_path: Path) -> None:
    """The same answers, recorded and called: every figure of the summary is equal."""
    calls: dict[str, int] = defaultdict(int)

    def agent(prompt: str) -> str:
        calls[prompt] += 1
        return "yes" if calls[prompt] - 1 < int(prompt) % 4 else "no"

    live = evaluate(
        [{"prompt": f"{i}", "reference": "yes"} for i in range(12)], [METRIC], agent, trials=3, output=tmp_path / "live"
    )
    found = run(recorded(), tmp_path / "recorded")
    pd.testing.assert_frame_equal(figures(found), figures(live), check_exact=True)
    row = figures(found).iloc[0]
    assert (row["row_count"], row["n_clusters"], row["ci_method"]) == (36, 12, "cluster")


def test_the_table_has_their_numbers_in_the_order_of_the_dataset(tmp_path: Path) -> None:
    rows = recorded()
    table = run(rows, tmp_path / "out").metrics_table
    assert table["trial"].tolist() == table["attempt"].tolist() == [row["attempt"] for row in rows]
    assert table["task"].tolist() == [row["task"] for row in rows]
    assert table["instance_id"].nunique() == 12
    assert not table["instance_id"].str.contains("-").any()


def test_a_column_trial_is_taken_for_their_number_and_the_text_says_so(tmp_path: Path) -> None:
    taken = run(recorded("trial"), tmp_path / "taken", dataset_options={"id": "task"})
    named = run(recorded("trial"), tmp_path / "named", dataset_options={"id": "task", "trial": "trial"})
    pd.testing.assert_frame_equal(figures(taken), figures(named), check_exact=True)
    assert render(taken).count("trials 0 to 2 by column trial, taken for dataset.trial") == 1
    assert "trials 0 to 2 by column trial ·" in render(named)
    assert taken.manifest["trials"] == {"column": "trial", "first": 0, "last": 2, "taken": True}


@pytest.mark.parametrize("numbers", [["a", "b"], [0, 0], [1, None], [True, 2], [-1, 2], [0.5, 2]])
def test_a_column_that_does_not_number_them_is_a_column_like_others(tmp_path: Path, numbers: list[Any]) -> None:
    rows = [{"task": "t", "trial": n, "prompt": "p", "reference": "a", "response": "a"} for n in numbers]
    found = run(rows, tmp_path / "out", dataset_options={"id": "task"})
    assert sorted(found.metrics_table["instance_id"].str.len()) == [32, 34]
    counts = found.manifest["counts"]
    assert (counts["rows"], counts["rejected"], counts["ok"]) == (2, 0, 2)


def test_text_of_a_csv_file_numbers_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    pd.DataFrame(recorded()).to_csv(path, index=False)
    found = run(str(path), tmp_path / "out")
    assert found.metrics_table["trial"].value_counts().to_dict() == {0: 12, 1: 12, 2: 12}


@pytest.mark.parametrize("shards", [1, 64])
def test_tables_do_not_depend_on_how_the_work_is_cut(tmp_path: Path, shards: int) -> None:
    """1,500 trials of a task are more than a batch holds."""
    rows = recorded(tasks=2, trials=1500) + [{**row, "task": f"x{i}"} for i, row in enumerate(recorded())]
    runs = [
        run(rows, tmp_path / "one", shards=shards),
        run(rows[::-1], tmp_path / "other", shards=16, statistics={"cluster": "task"}),
    ]
    first, second = map(figures, runs)
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert first.iloc[0]["n_clusters"] == 2 + 36
    instances = [Path(one.files("instances")[0]).read_bytes() for one in runs]
    assert instances[0] == instances[1]


def test_two_rows_with_the_same_id_and_trial_are_failed_runs(tmp_path: Path) -> None:
    rows = recorded(tasks=6)
    found = run([*rows, dict(rows[0])], tmp_path / "out")
    counts = found.manifest["counts"]
    assert (counts["rows"], counts["rejected"], counts["ok"], counts["failed"]) == (19, 0, 17, 2)
    errors = found.errors_table
    task, attempt = rows[0]["task"], rows[0]["attempt"]
    assert errors["code"].tolist() == ["DuplicateTrial"] * 2
    assert set(errors["message"]) == {
        f"2 rows have 'task' {task!r} and 'attempt' {attempt} (dataset.id, dataset.trial); "
        "which of them counts is not known"
    }
    table = found.metrics_table
    assert not table.duplicated(["instance_id", "trial"]).any()


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ("two", "bad_trial", "'attempt', which dataset.trial names, is 'two' (allowed: an integer from 0)"),
        (1.5, "bad_trial", "'attempt', which dataset.trial names, is 1.5 (allowed: an integer from 0)"),
        (-1, "bad_trial", "'attempt', which dataset.trial names, is -1 (allowed: an integer from 0)"),
        (True, "bad_trial", "'attempt', which dataset.trial names, is True (allowed: an integer from 0)"),
        (1 << 70, "bad_trial", f"'attempt', which dataset.trial names, is '{1 << 70}' (allowed: an integer from 0)"),
        (None, "missing_trial", "the row has no 'attempt', which dataset.trial names"),
    ],
)
def test_a_row_without_a_number_is_unusable(tmp_path: Path, value: Any, code: str, text: str) -> None:
    path = tmp_path / "rows.jsonl"
    rows = recorded(tasks=10)
    rows[4]["attempt"] = value
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    error = run(str(path), tmp_path / "out").errors_table.iloc[0]
    assert (error["line"], error["code"], error["message"]) == (5, code, text)
    assert error["file"].endswith("rows.jsonl")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"dataset_options": {"trial": "attempt"}}, "dataset: .*'trial' together with 'id'"),
        ({"trials": 2}, "trials: found 2, but the rows are trials"),
        (
            {"agent": {"target": "json:dumps"}, "metric": "exact_match"},
            "dataset.trial: it numbers recorded trials, but this run calls an agent",
        ),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run(recorded(), tmp_path / "out", **options)


@pytest.mark.skipif(not TAU_BENCH.exists(), reason="the conformance data is not here")
def test_tau_bench_has_its_own_figures(tmp_path: Path) -> None:
    """pass^k as tau-bench computes it from rewards, and the clustered error of statsmodels."""
    rows = [json.loads(line) for line in TAU_BENCH.read_text().splitlines()]
    found = evaluate(
        str(TAU_BENCH),
        [{"metric": reward, "name": "reward", "pass_k": [1, 2, 3, 4], "threshold": 1}],
        output=tmp_path / "out",
        dataset_options={"id": "task_id", "columns": {"reward": "float64"}},
    )
    table = found.summary_table.set_index("metric")
    passed: dict[int, int] = defaultdict(int)
    for row in rows:
        passed[row["task_id"]] += row["reward"] == 1
    for k in range(1, 5):
        expected = sum(math.comb(c, k) / math.comb(4, k) for c in passed.values()) / len(passed)
        assert table.loc[f"reward/pass^{k}", "mean"] == pytest.approx(expected, abs=1e-15)
    groups = np.array([row["task_id"] for row in rows])
    fit = sm.OLS(np.array([row["reward"] for row in rows]), np.ones(40)).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
    )
    assert table.loc["reward", "se"] == pytest.approx(float(fit.bse[0]) * (10 / 9) ** 0.5, rel=1e-12)
    assert table.loc["reward", "n_clusters"] == table.loc["reward/pass^4", "row_count"] == 10


def reward(row: dict[str, Any]) -> float:
    return float(row["reward"])
