"""Whole runs on gs://, over the protocol of Cloud Storage."""

from __future__ import annotations

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from steady_agent import AGENT, calls
from written import tables

from evalbeam import EvaluationResult, evaluate
from evalbeam.transforms.io import storage

pytestmark = pytest.mark.engines

ROWS = [
    {"prompt": f"p{i}", "reference": f"P{i}", "response": f"P{i}" if i % 3 else "no", "tags": [i % 5, {"deep": None}]}
    for i in range(400)
]


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def test_recorded_answers_on_gs_give_the_tables_they_give_on_a_disk(cloud: Any, tmp_path: Path) -> None:
    lines = jsonl(ROWS) + b"{broken\n" + jsonl([{"reference": "x"}])
    data = tmp_path / "data"
    data.mkdir()
    for i in range(3):
        cloud.put(f"same/data/part-{i}.jsonl", lines)
        (data / f"part-{i}.jsonl").write_bytes(lines)
    options: dict[str, Any] = {"slices": [["tags"]], "output_options": {"shards": 4}}
    there = evaluate(cloud.url("same/data"), ["exact_match"], output=cloud.url("same/run"), **options)
    here = evaluate(str(data), ["exact_match"], output=str(tmp_path / "out"), **options)
    ours, theirs = tables(tmp_path / "out"), tables(cloud.file("same/run"))
    assert ours.pop("errors.parquet") != theirs.pop("errors.parquet")  # which names the files
    assert ours == theirs
    columns = ["source", "line", "code", "message", "raw"]
    assert there.errors_table[columns].equals(here.errors_table[columns])
    assert not [p for p in cloud.file("same/run").glob(".tmp/**/*") if p.is_file()]
    read = EvaluationResult.load(cloud.url("same/run"))
    assert read.summary_table.equals(here.summary_table)
    assert read.metrics_table.equals(here.metrics_table)


IN_FLIGHT, FLUSH = 8, 500


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steady.py").write_text(AGENT)
    return tmp_path


def run(cloud: Any, folder: Path, dataset: str, output: str, dies_after: int | None = None, *more: str) -> Any:
    arguments = ["run", "--dataset", dataset, "--agent", "steady:ask", "--metrics", "exact_match", "--output", output]
    env = {} if dies_after is None else {"DIES_AFTER": str(dies_after)}
    return cloud.evalbeam(*arguments, "--set", f"agent.max_in_flight={IN_FLIGHT}", *more, cwd=folder, env=env)


def test_a_killed_run_goes_on_from_its_journal_on_gs(cloud: Any, folder: Path) -> None:
    size = 1500
    data = cloud.put("killed/rows.jsonl", jsonl([{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(size)]))
    whole = run(cloud, folder, data, cloud.url("killed/whole"))
    assert whole.returncode == 0, whole.stderr
    (folder / "calls.txt").unlink()
    for dies_after in (700, 500):
        assert run(cloud, folder, data, cloud.url("killed/run"), dies_after).returncode == -signal.SIGKILL
        assert not cloud.file("killed/run/manifest.json").exists()
    ended: subprocess.CompletedProcess[str] = run(cloud, folder, data, cloud.url("killed/run"))
    assert ended.returncode == 0, ended.stderr
    made = calls(folder)
    assert set(made) == {f"p{i}" for i in range(size)}
    assert len(made) - size <= 2 * (IN_FLIGHT + FLUSH)
    assert tables(cloud.file("killed/run")) == tables(cloud.file("killed/whole"))


@pytest.mark.faults
def test_one_request_in_twenty_fails_and_nothing_is_lost_or_doubled(cloud: Any, folder: Path) -> None:
    size = 1000
    lines = [{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(size)]
    data = cloud.put("faults/rows.jsonl", jsonl(lines))
    assert run(cloud, folder, data, cloud.url("faults/calm")).returncode == 0
    (folder / "calls.txt").unlink()
    with cloud.gcs.failing(0.05) as failed:
        ended = run(cloud, folder, data, cloud.url("faults/rough"), None, "--set", "output.shards=8")
    assert ended.returncode == 0, ended.stderr
    assert sum(failed.values()) >= 5
    assert sorted(calls(folder)) == sorted(f"p{i}" for i in range(size))
    rough, calm = (EvaluationResult.load(cloud.url("faults", name)) for name in ("rough", "calm"))
    assert rough.metrics_table.equals(calm.metrics_table)
    assert rough.summary_table.equals(calm.summary_table)


@pytest.mark.faults
def test_a_journal_whose_storage_fails_one_write_in_five_loses_no_call(cloud: Any, folder: Path) -> None:
    size = 1500
    data = cloud.put("shaky/rows.jsonl", jsonl([{"prompt": f"p{i}", "reference": f"P{i}"} for i in range(size)]))
    with cloud.gcs.failing(0.2, only="^(POST|PUT) /.*upload/.*journal") as failed:
        killed = run(cloud, folder, data, cloud.url("shaky/run"), 1200)
        ended = run(cloud, folder, data, cloud.url("shaky/run"))
    assert killed.returncode == -signal.SIGKILL
    assert ended.returncode == 0, ended.stderr
    assert len(failed) > 1
    made = calls(folder)
    assert set(made) == {f"p{i}" for i in range(size)}
    assert len(made) - size <= IN_FLIGHT + FLUSH
    assert EvaluationResult.load(cloud.url("shaky/run")).summary_metrics["exact_match/mean"] == 1.0


def test_of_many_that_make_an_object_at_once_one_does(cloud: Any) -> None:
    path = cloud.url("race/lease")
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda i: storage.create_new(path, b"%d" % i), range(16)))
    assert sum(won) == 1
    assert storage.read_bytes(path) == b"%d" % won.index(True)


def test_a_folder_is_deleted_with_all_its_objects_and_no_other(cloud: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: storage.write_bytes(cloud.url("gone", f"{i % 9}", f"{i}"), b"x"), range(130)))
    storage.write_bytes(cloud.url("gone-not"), b"x")
    assert len(storage.below(cloud.url("gone"))) == 130
    storage.delete_folder(cloud.url("gone"))
    assert storage.below(cloud.url("gone")) == []
    assert storage.exists(cloud.url("gone-not"))
    storage.delete_folder(cloud.url("gone"))
