"""Columns without any value and columns with infinities: what the dataset has, the instances table has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalbeam import evaluate

INF = float("inf")
ROWS: list[dict[str, Any]] = [
    {"prompt": "a", "reference": "x", "response": "x", "none": None, "f": 1.5, "all": -INF, "some": INF, "i": 7},
    {"prompt": "b", "reference": "y", "response": "z", "none": None, "f": INF, "all": INF, "some": None, "i": -INF},
]
TEXTS = [{"words": "Infinity", "list": [1.5, INF]}, {"words": "-Infinity", "list": []}]


def _frame(_: Path) -> Any:
    return pd.DataFrame(ROWS)


def _jsonl(folder: Path) -> Any:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))  # Python writes Infinity
    return path


def _parquet(folder: Path) -> Any:
    path = folder / "rows.parquet"
    pq.write_table(pa.table({name: [row[name] for row in ROWS] for name in ROWS[0]}), path)
    return path


@pytest.mark.parametrize("format_", ["parquet", "jsonl", "csv"])
def test_what_the_dataset_has_is_in_every_format_of_the_tables(tmp_path: Path, format_: str) -> None:
    dataset = [{**row, **more} for row, more in zip(ROWS, TEXTS, strict=True)]
    result = evaluate(dataset, ["exact_match"], output=tmp_path / "out", output_options={"format": format_})
    types = {c["name"]: c["type"] for c in result.manifest["tables"]["instances"]["columns"]}
    named = ("none", "f", "all", "some", "i", "words", "list")
    assert [types[n] for n in named] == ["null", *["float64"] * 4, "string", "json"]
    table = result.metrics_table.sort_values("prompt")
    assert table["none"].isna().all()
    assert table["f"].tolist() == [1.5, INF]
    assert table["all"].tolist() == [-INF, INF]
    assert table["i"].tolist() == [7.0, -INF]
    assert table["words"].tolist() == ["Infinity", "-Infinity"]
    assert table["list"].tolist() == [[1.5, "Infinity"], []]
    assert (table["some"].tolist()[0], table["some"].isna().tolist()) == (INF, [False, True])


@pytest.mark.parametrize("make", [_frame, _jsonl, _parquet])
def test_every_kind_of_dataset_keeps_them(tmp_path: Path, make: Any) -> None:
    rows = make(tmp_path)
    result = evaluate(rows, ["exact_match"], output=tmp_path / "out")
    (path,) = result.files("instances")
    found = pq.read_table(path).sort_by("prompt").select(["none", "f", "all", "some", "i"])
    assert found.schema.types == [pa.string(), *[pa.float64()] * 4]
    assert found.to_pydict() == {
        "none": [None, None],
        "f": [1.5, INF],
        "all": [-INF, INF],
        "some": [INF, None],
        "i": [7.0, -INF],
    }


def test_a_column_of_columns_that_holds_nothing_stays(tmp_path: Path) -> None:
    columns = {"prompt": ["a"], "reference": ["x"], "response": ["x"], "empty": [None]}
    table = evaluate(columns, ["exact_match"], output=tmp_path / "out").metrics_table
    assert table["empty"].isna().all()


def test_declared_floats_are_infinite_where_the_dataset_says_so(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("prompt,reference,response,x\na,x,x,inf\nb,x,x,-Infinity\nc,x,x,nan\nd,x,x,\n")
    options = {"columns": {"x": "float64"}}
    result = evaluate(path, ["exact_match"], output=tmp_path / "out", dataset_options=options)
    table = result.metrics_table.sort_values("prompt")
    assert table["x"].fillna(0).tolist() == [INF, -INF, 0, 0]
