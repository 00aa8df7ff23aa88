"""A run appears all at once: names that came through the graph, nothing stale, the manifest last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam.schemas import tables
from evalbeam.schemas.config.evaluation import CriterionConfig
from evalbeam.schemas.result import Summary
from evalbeam.transforms import finish
from evalbeam.transforms.facts import DatasetStats, RunLimits
from evalbeam.transforms.io import storage
from evalbeam.transforms.statistics.slices import MetricFacts
from evalbeam.transforms.write import WrittenFile, write_table
from evalbeam.transforms.writers.jsonl import JsonlFiles
from evalbeam.transforms.writers.parquet import ParquetFiles

COLUMNS = (tables.Column("instance_id", "string"), tables.Column("status", "string"))


def record(output: Path, *criteria: CriterionConfig) -> finish.RunRecord:
    return finish.RunRecord(
        str(output), {"a": 1}, {"evalbeam": "1"}, RunLimits(0.1), (MetricFacts("m", True),), criteria=criteria
    )


def part(output: Path, index: int, total: int, rows: list[tuple[str, str]]) -> WrittenFile:
    schema = tables.schema(COLUMNS)
    batch = pa.record_batch([pa.array([r[0] for r in rows]), pa.array([r[1] for r in rows])], schema=schema)
    name = f"instances/part-{index:05d}-of-{total:05d}.parquet"
    return write_table("instances", name, [batch] if rows else [], COLUMNS, str(output), ParquetFiles())


def errors(output: Path) -> WrittenFile:
    return write_table("errors", "errors.parquet", [], tables.ERRORS, str(output), ParquetFiles())


def run(output: Path, files: list[WrittenFile], *criteria: CriterionConfig, facts: DatasetStats | None = None) -> dict:
    summaries = [Summary((), "m", 3, 2, 1, 0, mean=0.5)]
    facts = facts or DatasetStats(rows=3)
    return orjson.loads(finish._finish(0, record(output, *criteria), ParquetFiles(), files, summaries, facts, []))


def tree(output: Path) -> list[str]:
    return sorted(str(p.relative_to(output)) for p in output.rglob("*") if p.is_file())


def test_a_run_has_its_tables_its_counts_and_no_leftovers(tmp_path):
    files = [
        part(tmp_path, 0, 2, [("a", "ok"), ("b", "failed")]),
        part(tmp_path, 1, 2, [("c", "ok")]),
        errors(tmp_path),
    ]
    part(tmp_path, 0, 2, [("lost", "ok")])
    manifest = run(tmp_path, files, CriterionConfig(metric="m", min=0.5))
    assert tree(tmp_path) == [
        "errors.parquet",
        "instances/part-00000-of-00002.parquet",
        "instances/part-00001-of-00002.parquet",
        "manifest.json",
        "summary.parquet",
    ]
    assert orjson.loads((tmp_path / "manifest.json").read_bytes()) == manifest
    assert (manifest["state"], manifest["verdict"]) == ("finished", "PASSED")
    assert manifest["counts"] == {"rows": 3, "rejected": 0, "ok": 2, "failed": 1, "not_called": 0, "over_budget": 0}
    assert manifest["tables"]["instances"]["rows"] == 3
    assert [c["name"] for c in manifest["tables"]["instances"]["columns"]] == ["instance_id", "status"]


def test_repeating_it_after_any_crash_ends_in_the_same_run(tmp_path, monkeypatch):
    class Crash(Exception):
        pass

    moves = []
    move = storage.move

    def crash_at(n):
        def moving(source, destination):
            moves.append(destination)
            if len(moves) == n:
                raise Crash
            move(source, destination)

        return moving

    for n in range(1, 6):
        output = tmp_path / str(n)
        files = [part(output, 0, 2, [("a", "ok")]), part(output, 1, 2, []), errors(output)]
        storage.write_bytes(str(output / "manifest.json"), b"of the run that this one replaces")
        moves.clear()
        monkeypatch.setattr(storage, "move", crash_at(n))
        with pytest.raises(Crash):
            run(output, files)
        assert "manifest.json" not in tree(output)
        monkeypatch.setattr(storage, "move", move)
        run(output, files)
        assert len(tree(output)) == 5


def test_an_overwritten_run_leaves_nothing_behind(tmp_path):
    run(tmp_path, [part(tmp_path, i, 4, [(str(i), "ok")]) for i in range(4)] + [errors(tmp_path)])
    storage.write_bytes(str(tmp_path / "summary.csv"), b"old")
    storage.write_bytes(str(tmp_path / "mine.txt"), b"kept")
    run(tmp_path, [part(tmp_path, 0, 1, [("x", "ok")]), errors(tmp_path)])
    assert tree(tmp_path) == [
        "errors.parquet",
        "instances/part-00000-of-00001.parquet",
        "manifest.json",
        "mine.txt",
        "summary.parquet",
    ]


@pytest.mark.parametrize("bound", [0.5, 0.6])
def test_rows_that_are_left_leave_the_criteria_undecided(tmp_path, bound):
    files = [part(tmp_path, 0, 1, [("a", "ok"), ("b", "ok"), ("c", "not_called")]), errors(tmp_path)]
    manifest = run(tmp_path, files, CriterionConfig(metric="m", min=bound))
    assert (manifest["state"], manifest["verdict"]) == ("stopped", "NOT_EVALUATED")
    assert [c["verdict"] for c in manifest["criteria"]] == ["NOT_EVALUATED"]
    (row,) = pq.read_table(tmp_path / "summary.parquet").to_pylist()
    assert (row["mean"], row["verdict"]) == (0.5, "NOT_EVALUATED")


def test_a_refused_run_writes_the_errors_alone_and_says_why(tmp_path):
    facts = DatasetStats(rows=1, rejected=9)
    manifest = run(tmp_path, [part(tmp_path, 0, 1, []), errors(tmp_path)], facts=facts)
    assert tree(tmp_path) == ["errors.parquet", "manifest.json"]
    assert (manifest["state"], manifest["verdict"]) == ("failed", None)
    assert "9 of 10 rows (90 %)" in manifest["reason"]


def test_summary_and_manifest_are_the_same_bytes_but_for_what_was_measured(tmp_path):
    written = []
    for name in "ab":
        output = tmp_path / name
        run(output, [part(output, 0, 1, [("a", "ok")]), errors(output)])
        manifest = orjson.loads((output / "manifest.json").read_bytes())
        assert set(manifest.pop("measured")) == {"started", "finished", "seconds"}
        written.append((manifest, (output / "summary.parquet").read_bytes()))
    assert written[0] == written[1]


def test_storage_moves_over_what_is_there_and_lists_at_any_depth(tmp_path):
    for name in ("a", "b/c/d", "b/e"):
        storage.write_bytes(str(tmp_path / "x" / name), name.encode())
    assert [p.removeprefix(f"{tmp_path}/x/") for p in storage.below(str(tmp_path / "x"))] == ["a", "b/c/d", "b/e"]
    storage.move(str(tmp_path / "x/a"), str(tmp_path / "x/b/e"))
    assert storage.read_bytes(str(tmp_path / "x/b/e")) == b"a"
    with pytest.raises(FileNotFoundError, match="neither"):
        storage.move(str(tmp_path / "no"), str(tmp_path / "where"))
    storage.delete_folder(str(tmp_path / "x"))
    assert storage.below(str(tmp_path / "x")) == []
    assert JsonlFiles().ending == ".jsonl"


def test_who_reads_a_file_that_is_written_again_sees_one_or_the_other(tmp_path):
    path = str(tmp_path / "x" / "note.json")
    written = [letter * 100_000 for letter in (b"a", b"b")]
    storage.write_whole(path, written[0])
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [storage.write_whole(path, written[i % 2]) for i in range(300)])
        seen = {storage.read_bytes(path)}
        while not writing.done():
            seen.add(storage.read_bytes(path))
        writing.result()
    assert seen <= set(written)
    assert storage.below(str(tmp_path)) == [path]


def test_a_file_whose_writing_fails_stays_as_it_was(tmp_path):
    path = str(tmp_path / "page.html")
    for before in ([], [path]):
        with pytest.raises(ZeroDivisionError), storage.replacing(path) as stream:
            stream.writelines(b"half of a page" if i else bytes(1 // i) for i in (1, 0))
        assert storage.below(str(tmp_path)) == before
        storage.write_whole(path, b"a page")
        assert storage.read_bytes(path) == b"a page"


def test_the_characters_of_a_glob_are_part_of_a_folder_s_name(tmp_path):
    own, other = [f"{tmp_path}/{name}/manifest.json" for name in ("o[1]*?", "o1ab")]
    for path in (own, other, f"{tmp_path}/o[1]*?/journal/a/seg", f"{tmp_path}/o1ab/journal/a/seg"):
        storage.write_bytes(path, b"")
    assert storage.below(f"{tmp_path}/o[1]*?") == [f"{tmp_path}/o[1]*?/journal/a/seg", own]
    storage.delete([own, own])
    storage.delete_folder(f"{tmp_path}/o[1]*?/journal")
    storage.delete_folder(f"{tmp_path}/o[1]*?/nothing")
    assert tree(tmp_path) == ["o1ab/journal/a/seg", "o1ab/manifest.json"]
