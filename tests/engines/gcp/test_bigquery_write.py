"""Tables of a run in BigQuery: each run's rows are there once, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from evalbeam import ConfigError, EvaluationResult, evaluate

pytestmark = pytest.mark.engines

SIZE = 300
ROWS = [
    {"prompt": f"p{i}", "reference": f"P{i}", "response": f"P{i}" if i % 3 else "no", "status": "x", "Größe": i / 4}
    for i in range(SIZE)
]
LINES = b"".join(orjson.dumps(row) + b"\n" for row in ROWS) + b"{broken\n"


def run(cloud: Any, warehouse: Any, name: str, rows: list[dict[str, Any]] = ROWS, **options: Any) -> EvaluationResult:
    section = {"dataset": warehouse.dataset, **options}
    out = {"bigquery": section, "overwrite": True, "shards": 2}
    return evaluate(rows, ["exact_match"], output=cloud.url("written", name), output_options=out)


def count(warehouse: Any, table: str, run_id: str) -> int:
    (found,) = warehouse.rows(f"SELECT COUNT(*) AS n FROM `{{d}}.{table}` WHERE run_id = '{run_id}'")
    return found["n"]


def test_a_runs_tables_are_those_of_its_files(cloud: Any, warehouse: Any, tmp_path: Path) -> None:
    for day in ("2026-11-20", "2026-11-21"):
        result = run(cloud, warehouse, day, prefix="a_", run_date=day)
    table = warehouse.client.get_table(f"{warehouse.dataset}.a_instances")
    names = [f.name for f in table.schema]
    assert names[:5] == ["run_id", "run_date", "instance_id", "trial", "Größe"]
    assert {"dataset_status", "status", "exact_match_score", "exact_match_status"} < set(names)
    assert (table.time_partitioning.field, table.clustering_fields) == ("run_date", ["run_id"])
    rows = warehouse.rows("SELECT * FROM `{d}.a_instances` WHERE run_date = '2026-11-21' ORDER BY instance_id")
    mine = evaluate(ROWS, ["exact_match"], output=str(tmp_path / "disk"))
    frame = mine.metrics_table.sort_values("instance_id")
    assert {row.pop("run_id") for row in rows} == {cloud.url("written", "2026-11-21")}
    assert [row["exact_match_score"] for row in rows] == list(frame["exact_match/score"])
    assert [row["Größe"] for row in rows] == list(frame["Größe"])
    assert [row["instance_id"] for row in rows] == list(frame["instance_id"])
    assert result.metrics_table.equals(mine.metrics_table)
    assert EvaluationResult.load(result.output).summary_table.equals(mine.summary_table)
    assert count(warehouse, "a_summary", result.output) == len(mine.summary_table)
    assert count(warehouse, "a_errors", result.output) == 0


@pytest.mark.parametrize(("write", "expected"), [("replace", SIZE - 1), ("append", SIZE)])
def test_writing_a_run_twice(cloud: Any, warehouse: Any, write: str, expected: int) -> None:
    options = {"prefix": f"{write}_", "write": write, "run_id": "mine"}
    other = run(cloud, warehouse, f"{write}-other", **{**options, "run_id": "other"})
    for rows in (ROWS, ROWS[1:]):
        run(cloud, warehouse, f"{write}-mine", rows, **options)
    assert count(warehouse, f"{write}_instances", "mine") == expected
    assert count(warehouse, f"{write}_instances", "other") == SIZE
    assert count(warehouse, f"{write}_summary", "mine") == len(other.summary_table)


@pytest.mark.parametrize("kind", ["reset", "lost"])
@pytest.mark.parametrize("write", ["replace", "append"])
def test_a_crash_between_the_files_and_the_load(
    cloud: Any, warehouse: Any, tmp_path: Path, write: str, kind: str
) -> None:
    """The client is killed when the load job reaches the service: before it is begun, or after."""
    name = f"crash-{write}-{kind}"
    data = cloud.put(f"written/{name}.jsonl", LINES)
    section = {"dataset": warehouse.dataset, "prefix": name.replace("-", "_"), "write": write}
    command = [
        sys.executable,
        "-m",
        "evalbeam",
        "run",
        "--dataset",
        data,
        "--metrics",
        "exact_match",
    ]
    command += ["--output", cloud.url("written", name), "--set", f"output.bigquery={orjson.dumps(section).decode()}"]
    env = {**os.environ, **cloud.environment}
    with warehouse.rest.failing(1.0, r"POST .*/jobs.* evalbeam-load-\w+-1$", (kind,)) as failed:
        process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        warehouse.rest.witness = process.kill
        process.communicate(timeout=240)
    assert (process.returncode, failed) == (-signal.SIGKILL, {kind: 1})
    assert cloud.file("written", name, "summary.parquet").exists()
    assert not cloud.file("written", name, "manifest.json").exists()
    again = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr
    prefix = section["prefix"]
    assert count(warehouse, f"{prefix}instances", cloud.url("written", name)) == SIZE
    assert count(warehouse, f"{prefix}errors", cloud.url("written", name)) == 1


def test_one_request_in_twenty_fails_and_no_row_is_lost_or_doubled(cloud: Any, warehouse: Any) -> None:
    total: dict[str, int] = {}
    for number in range(4):
        with warehouse.rest.failing(0.15) as failed:
            run(cloud, warehouse, f"faults-{number}", prefix="f_")
        total = {kind: total.get(kind, 0) + failed.get(kind, 0) for kind in {*total, *failed}}
    assert sum(total.values()) >= 5
    for number in range(4):
        assert count(warehouse, "f_instances", cloud.url("written", f"faults-{number}")) == SIZE


def test_a_dataset_that_is_not_there_is_told_before_the_run(cloud: Any, warehouse: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"output.bigquery.dataset: test-project.nope: .*[nN]ot found"):
        run(cloud, warehouse, "nope", dataset="test-project.nope")
    options = {"bigquery": {"dataset": "p.d"}}
    with pytest.raises(ConfigError, match="'bigquery' with a path on gs:// and format parquet"):
        evaluate(ROWS, ["exact_match"], output=str(tmp_path), output_options=options)
