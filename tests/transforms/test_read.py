"""Which files a dataset is, and reading them on a real runner: the same rows from every format."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import RowBlock
from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms.read import ReadRows
from evalbeam.transforms.readers._files import FileInfo, expand, head
from evalbeam.transforms.readers.base import FileRange, Reader
from evalbeam.transforms.readers.memory import spill
from evalbeam.transforms.registry import find, names

SUB_PATHS = ["sub/c.csv", "sub/deep/d.PARQUET"]
SUB = ["sub/c.csv csv", "sub/deep/d.PARQUET parquet"]
COLUMNS = {"n": "int64", "x": "float64", "ok": "bool", "at": "timestamp", "calls": "json"}


def rows(count: int = 700) -> list[dict[str, Any]]:
    """Rows that every format can hold: strings that look like numbers, nested calls, missing values."""
    out: list[dict[str, Any]] = []
    for i in range(count):
        calls = [{"tool_name": f"t{k}", "tool_input": {"a": k, "b": "x\ny"}} for k in range(i % 3)]
        row = {
            "prompt": f'say "{i % 600}", é',
            "zip": f"{i:05d}",
            "day": "2024-03-30",
            "n": i,
            "x": i / 8,
            "calls": calls,
        }
        out.append(row | ({} if i % 5 else {"ok": i % 2 == 0, "at": "2024-03-30T12:00:00Z"}))
    return out


def as_jsonl(data: list[Any], path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in data), "utf-8")


def as_array(data: list[Any], path: Path) -> None:
    path.write_text(json.dumps(data, indent=2), "utf-8")


def packed(pack: Callable[[bytes], bytes]) -> Callable[[list[Any], Path], None]:
    def write(data: list[Any], path: Path) -> None:
        as_jsonl(data, path)
        path.write_bytes(pack(path.read_bytes()))

    return write


def as_csv(data: list[Any], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["prompt", "zip", "day", "n", "x", "calls", "ok", "at"])
        writer.writeheader()
        writer.writerows(row | {"calls": json.dumps(row["calls"])} for row in data)


def as_parquet(data: list[Any], path: Path) -> None:
    table = pa.Table.from_pylist(data)
    at = pa.array([row.get("at") for row in data]).cast(pa.timestamp("ms", "UTC"))
    pq.write_table(table.drop_columns("at").append_column("at", at), path, row_group_size=97)


FORMS = {
    ".jsonl": as_jsonl,
    ".json": as_array,
    ".jsonl.gz": packed(gzip.compress),
    ".jsonl.zst": packed(zstandard.compress),
    ".csv": as_csv,
    ".parquet": as_parquet,
}


def keep(block: RowBlock, folder: str) -> None:
    name = hashlib.sha256(f"{block.file} {block.range} {block.lines}".encode()).hexdigest()
    Path(folder, name).write_bytes(block.to_bytes())


def run(files: list[FileInfo], folder: Path, columns: dict[str, str] | None = None) -> list[RowBlock]:
    """Blocks as a runner gives them, in order of their places."""
    folder.mkdir()
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | ReadRows(files, columns or {}) | beam.Map(keep, str(folder))
    pipeline.run().wait_until_finish()
    blocks = [RowBlock.from_bytes(path.read_bytes()) for path in folder.iterdir()]
    return sorted(blocks, key=lambda b: (b.file, b.range, b.lines))


def canonical(data: list[dict[str, Any]]) -> list[str]:
    """Rows as text that tells 1, 1.0 and true apart."""
    return [json.dumps(row, sort_keys=True) for row in data]


def read_rows(blocks: list[RowBlock]) -> list[str]:
    assert not [bad for block in blocks for bad in block.rejected]
    return canonical([row for block in blocks for _, row in block.rows])


@pytest.mark.parametrize("suffix", FORMS)
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    data = rows()
    (tmp_path / "one").mkdir()
    (tmp_path / "four").mkdir()
    FORMS[suffix](data, tmp_path / "one" / f"rows{suffix}")
    for i in range(4):
        FORMS[suffix](data[i * 150 : (i + 1) * 150 if i < 3 else None], tmp_path / "four" / f"rows-{i}{suffix}")
    columns = COLUMNS if suffix == ".csv" else {}
    one, four = expand([str(tmp_path / "one")]), expand([str(tmp_path / "four")])
    assert (len(one), len(four)) == (1, 4)
    assert read_rows(run(one, tmp_path / "out1", columns)) == canonical(data)
    assert read_rows(run(four, tmp_path / "out4", COLUMNS)) == canonical(data)


def test_formats_may_stand_side_by_side(tmp_path: Path) -> None:
    data = rows(60)
    for i, (suffix, write) in enumerate(FORMS.items()):
        write(data[i * 10 : i * 10 + 10], tmp_path / f"{i}{suffix}")
    assert read_rows(run(expand([str(tmp_path)]), tmp_path.parent / "out", COLUMNS)) == canonical(data)


def test_memory_is_read_like_files(tmp_path: Path) -> None:
    data = rows(300)
    written = spill((row for row in data), str(tmp_path / "input"))
    assert [written] == expand([written.path])
    assert read_rows(run([written], tmp_path / "out")) == canonical(data)


def test_ranges_are_read_apart_and_places_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [b'{"i":%d,"pad":"%s"}' % (i, b"x" * 1000) if i % 100 else b"broken" for i in range(40_000)]
    path.write_bytes(b"\n".join(lines))
    blocks = run(expand([str(path)]), tmp_path / "out")
    assert {b.range for b in blocks} == set(range(10))
    before = {0: 0}
    for block in blocks:
        before[block.range + 1] = before[block.range] + block.lines
    assert before[10] == 40_000
    assert all(row["i"] == before[b.range] + n - 1 for b in blocks for n, row in b.rows)
    bad = [before[b.range] + r.line - 1 for b in blocks for r in b.rejected]
    assert bad == list(range(0, 40_000, 100))


def test_a_range_and_its_coder(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | ReadRows([FileInfo("a.jsonl", 1, "jsonl")])
    coder = beam.coders.registry.get_coder(FileRange)
    for part in (FileRange("é", 2, 3, None), FileRange("a", 0, 0, 5)):
        assert coder.decode(coder.encode(part)) == part
    assert coder.is_deterministic()


def test_every_reader_says_what_it_takes() -> None:
    for name in names("reader"):
        reader = find("reader", name).factory()
        assert isinstance(reader, Reader)
        assert all(suffix.startswith(".") for suffix in reader.suffixes)


# ---------------------------------------------------------------------------------------------------- expand


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.jsonl",
        "b[1].jsonl",
        "notes.txt",
        "manifest.json",
        "_SUCCESS.jsonl",
        ".hidden.jsonl",
        "sub/c.csv",
        "sub/deep/d.PARQUET",
        "sub/_tmp/e.jsonl",
        "empty/readme.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"{}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "format_", "found"),
    [
        (["a.jsonl"], "auto", ["a.jsonl jsonl"]),
        ([""], "auto", ["a.jsonl jsonl", "b[1].jsonl jsonl", "sub/c.csv csv", "sub/deep/d.PARQUET parquet"]),
        (["/"], "csv", ["sub/c.csv csv"]),
        (["*.jsonl"], "auto", ["a.jsonl jsonl", "b[1].jsonl jsonl"]),
        (["b[1].jsonl"], "auto", ["b[1].jsonl jsonl"]),
        (["[ab].jsonl"], "auto", ["a.jsonl jsonl"]),
        (["**.csv"], "auto", ["sub/c.csv csv"]),
        (["*.txt"], "jsonl", ["notes.txt jsonl"]),
        (["notes.txt"], "csv", ["notes.txt csv"]),
        (["sub", "a.jsonl", "sub/c.csv", "*.jsonl", "a.jsonl"], "auto", ["a.jsonl jsonl", "b[1].jsonl jsonl"] + SUB),
        (["_SUCCESS.jsonl", "manifest.json"], "auto", ["_SUCCESS.jsonl jsonl", "manifest.json jsonl"]),
        (["sub/_tmp"], "auto", ["sub/_tmp/e.jsonl jsonl"]),
    ],
)
def test_expand(tree: Path, paths: list[str], format_: str, found: list[str]) -> None:
    files = expand([f"{tree}/{path}" for path in paths], format_)
    shown = [f"{f.path.removeprefix(str(tree)).strip('/')} {f.format}" for f in files]
    assert shown == found
    assert {f.size for f in files} == {3}


def test_expand_takes_relative_paths(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert [f.path for f in expand(["sub"])] == ["sub/c.csv", "sub/deep/d.PARQUET"]
    assert [f.path for f in expand(["*.jsonl"])] == ["a.jsonl", "b[1].jsonl"]
    assert [f.path for f in expand(["b[1].jsonl", "s*/c.csv"])] == ["b[1].jsonl", "sub/c.csv"]
    assert [f.path for f in expand(["./*.jsonl"])] == ["./a.jsonl", "./b[1].jsonl"]
    assert [f.path for f in expand(["."])] == [f"./{name}" for name in ("a.jsonl", "b[1].jsonl", *SUB_PATHS)]


@pytest.mark.parametrize("path", ["nothing.jsonl", "nothing/", "nothing-*.csv", "["])
def test_a_path_where_nothing_is_is_named(tree: Path, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand([f"{tree}/a.jsonl", f"{tree}/{path}"])
    assert str(caught.value).startswith(f"dataset.path: there is no file at '{tree}/{path}' (allowed: a file, a folder")


@pytest.mark.parametrize("path", ["empty", "notes.txt", "*.txt"])
def test_a_path_of_other_files_is_named(tree: Path, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand([f"{tree}/a.jsonl", f"{tree}/{path}"])
    assert str(caught.value).startswith(f"dataset.path: '{tree}/{path}' stands for no dataset file (allowed: files")
    assert ".csv, .csv.gz, .csv.zst, .evalset.json, .evalset_result.json, .json," in str(caught.value)


@pytest.mark.parametrize(
    ("paths", "format_", "message"),
    [
        ([], "auto", "dataset.path: no path is given"),
        (["nofs://a/b.jsonl"], "auto", "dataset.path: cannot list 'nofs://a/b.jsonl': ValueError"),
        (["a.jsonl"], "xml", "dataset.format: no reader named 'xml'"),
    ],
)
def test_expand_refuses(paths: list[str], format_: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        expand(paths, format_)
    assert str(caught.value).startswith(message)


# ---------------------------------------------------------------------------------------------------- head


def test_head_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    as_jsonl(rows(3), tmp_path / "a.jsonl")
    as_csv(rows(2000), tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("a,a\n1,2\n")
    files = expand([str(tmp_path)])
    blocks = head(files, COLUMNS, rows=20)
    assert [len(b.rows) for b in blocks] == [3, 256]
    assert head(files, rows=2)[0].rows[0][1]["zip"] == "00000"
    with pytest.raises(ConfigError, match=r"c\.csv: the header names 'a' twice"):
        head(files, rows=3000)
