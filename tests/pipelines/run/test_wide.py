"""Datasets of thousands of columns, dense and with names that differ from row to row."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from evalbeam import evaluate
from evalbeam.pipelines.report.page import render_page
from evalbeam.schemas import tables

VALUES: tuple[Callable[[int, int], Any], ...] = (
    lambda i, c: f"text {i} {c}",
    lambda i, c: i * c,
    lambda i, c: i / 4,
    lambda i, c: bool(i % 2),
    lambda i, c: [i, {"c": c}],
    lambda i, c: None,
    lambda i, c: float("inf") if i % 3 else c / 2,
)


def _answer(i: int) -> dict[str, str]:
    return {"prompt": f"q{i}", "response": f"a{i % 3}", "reference": "a1"}


def _dense(rows: int, columns: int) -> list[dict[str, Any]]:
    return [_answer(i) | {f"c{c}": VALUES[c % len(VALUES)](i, c) for c in range(columns)} for i in range(rows)]


def _files(result: Any) -> list[str]:
    return [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in result.files("instances")]


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_rows_that_travel_as_json_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    rows, options = _dense(40, 300), {"output_options": {"format": format_, "shards": 2}}
    wide = evaluate(rows, ["exact_match"], output=tmp_path / "wide", **options)
    monkeypatch.setattr(tables, "WIDE", 10**9)
    narrow = evaluate(rows, ["exact_match"], output=tmp_path / "narrow", **options)
    assert _files(wide) == _files(narrow)
    assert wide.manifest["tables"]["instances"]["columns"] == narrow.manifest["tables"]["instances"]["columns"]


def test_names_that_differ_from_row_to_row(tmp_path: Path) -> None:
    rows = [_answer(i) | {f"key_{i}_{c}": c for c in range(30)} for i in range(100)]
    (path,) = evaluate(rows, ["exact_match"], output=tmp_path / "out").files("instances")
    table = pq.read_table(path)
    found = [{n: v for n, v in row.items() if n.startswith("key_") and v is not None} for row in table.to_pylist()]
    assert table.num_columns > 3000
    assert {frozenset(row.items()) for row in found} == {
        frozenset((f"key_{i}_{c}", c) for c in range(30)) for i in range(100)
    }


def test_the_page_holds_rows_of_many_columns(tmp_path: Path) -> None:
    result = evaluate(_dense(3, 300), ["exact_match"], output=tmp_path / "out")
    shown = render_page(result)
    names = set(re.findall(r'"name":"(c\d+)"', shown))
    left = int(re.search(r"(\d+) more columns of the dataset are in the instances table", shown)[1])  # type: ignore[index]
    assert 100 < len(names) <= 200  # not those in which no row has a value
    assert left == 303 - 200
    assert len(shown) < 150_000


def test_too_many_columns_end_the_run_before_it_calls(tmp_path: Path) -> None:
    rows = [_answer(i) | {f"key_{i}_{c}": c for c in range(2100)} for i in range(10)]
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    assert result.state == "failed"
    assert "has 21003 columns (allowed: 20000)" in result.manifest["reason"]
