"""Rows in memory, read back from where they were spilled to."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.plain_values import plain
from evalbeam.transforms.readers.jsonl import JsonlReader
from evalbeam.transforms.readers.memory import spill


class Color(enum.StrEnum):
    RED = "red"


def back(dataset: Any, folder: Path) -> list[dict[str, Any]]:
    path, size, format_ = spill(dataset, str(folder / "run" / "input"))
    assert (size, format_) == (Path(path).stat().st_size, "jsonl")
    reader = JsonlReader()
    blocks = [b for part in reader.split(path, Path(path).stat().st_size) for b in reader.read(part)]
    assert not any(b.rejected for b in blocks)
    return [row for block in blocks for _, row in block.rows]


JSON_ONLY = " (allowed: values with a JSON form)"
ROWS = [{"a": 1, "zip": "02134", "n": {"b": [1, None]}}, {"a": 2, "x": 1.0}, {"a": 2, "x": 1.0}]


@pytest.mark.parametrize("form", [list, tuple, iter, lambda rows: (row for row in rows)])
def test_iterables_of_dicts(tmp_path: Path, form: Any) -> None:
    assert back(form(ROWS), tmp_path) == ROWS


def test_columns(tmp_path: Path) -> None:
    columns = {"a": [1, 2], "b": np.array([0.5, np.nan]), "c": pd.Series(["x", None], index=[7, 3]), 4: (True, False)}
    assert repr(back(columns, tmp_path)) == repr([{"a": 1, "b": 0.5, "c": "x", "4": True}, {"a": 2, "4": False}])
    assert back({"a": []}, tmp_path) == []


def test_data_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "n": pd.array([1, None], dtype="Int64"),
            "x": [1.0, float("nan")],
            "s": ["02134", None],
            "t": pd.to_datetime(["2024-03-30T12:00:00.000000001", None]),
            "z": pd.to_datetime(["2024-03-30T12:00", None]).tz_localize("Europe/Berlin"),
            "d": pd.to_timedelta(["1.5s", None]),
            "c": pd.Categorical(["u", "v"]),
            "o": [{"k": np.int64(1), "l": np.array([1.5])}, [pd.NA, pd.NaT]],
            "b": [True, False],
        },
        index=["q", "q"],
    )
    first, second = back(frame, tmp_path)
    assert repr(first) == repr(
        {
            "i": 1,
            "n": 1,
            "x": 1.0,
            "s": "02134",
            "t": "2024-03-30T12:00:00.000000001",
            "z": "2024-03-30T11:00:00Z",
            "d": "PT1.5S",
            "c": "u",
            "o": {"k": 1, "l": [1.5]},
            "b": True,
        }
    )
    assert second == {"i": 2, "c": "v", "o": [None, None], "b": False}


def test_a_long_frame_keeps_its_order(tmp_path: Path) -> None:
    frame = pd.DataFrame({"i": range(5000)}, index=range(5000, 0, -1))
    assert [row["i"] for row in back(frame, tmp_path)] == list(range(5000))
    assert back(frame.iloc[:, :0].head(2), tmp_path) == [{}, {}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int8(-3), -3),
        (np.uint64(2**63), "9223372036854775808"),
        (2**70, "1180591620717411303424"),
        (np.float32(0.1), 0.10000000149011612),
        (np.float64("inf"), float("inf")),
        (np.longdouble(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.array([["a"], ["b"]]), [["a"], ["b"]]),
        (np.array([{"a": (1,)}], dtype=object), [{"a": [1]}]),
        (np.datetime64("2024-03-30"), "2024-03-30T00:00:00"),
        (np.array(["2024-03-30", "NaT"], "M8[ns]"), ["2024-03-30T00:00:00", None]),
        (np.timedelta64(-1, "ms"), "-PT0.001S"),
        (pd.Timestamp("2024-03-30T12:00:00.5+02:00"), "2024-03-30T10:00:00.500000Z"),
        (pd.Timedelta(1, "ns"), "PT0.000000001S"),
        (pd.NA, None),
        (pd.NaT, None),
        (pd.Index([1, 2]), [1, 2]),
        (dt.date(2024, 3, 30), "2024-03-30"),
        (dt.time(1, 2, 3), "01:02:03"),
        (dt.timedelta(days=1, microseconds=1), "PT86400.000001S"),
        (decimal.Decimal("1E+3"), "1000"),
        (decimal.Decimal("-1.50"), "-1.50"),
        (decimal.Decimal("NaN"), None),
        (b"\x00\xff", "AP8="),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Color.RED, "red"),
        ({1: "a", None: "b", Color.RED: "c", 1.5: "d"}, {"1": "a", "null": "b", "red": "c", "1.5": "d"}),
    ],
)
def test_values(value: Any, expected: Any) -> None:
    assert repr(plain(value)) == repr(expected)


def endless() -> Iterable[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ([{"a": 1}, {"b": {1}}], "dataset[1]['b']: found a set" + JSON_ONLY),
        ([{"a": [object()]}], "dataset[0]['a']: found a object" + JSON_ONLY),
        (
            [{"a": "\ud800"}],
            "dataset[0]['a']: found half a surrogate pair in a text (allowed: values with a JSON form)",
        ),
        (
            [{"a": endless()}],
            "dataset[0]['a']: found a value nested too deep, or in itself (allowed: values with a JSON form)",
        ),
        ([{"a": pd.Period("2024-01")}], "dataset[0]['a']: found a Period" + JSON_ONLY),
        ([{1: 1, "1": 2}], "dataset[0]: two columns are named '1' (allowed: each name once)"),
        ([3], "dataset[0]: found int (allowed: a dict for each row)"),
        ({"a": [1], "b": []}, "dataset: columns differ in length: a has 1, b has 0 (allowed: columns of one length)"),
        ({"a": "xy"}, "dataset: column 'a' is a str (allowed: a list)"),
        ({"a": np.array(5)}, "dataset: column 'a' is a ndarray (allowed: a list)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "dataset: two columns are named 'a' (allowed: each name once)"),
        (5, "dataset: found int (allowed: a path, a pandas DataFrame, an iterable of dicts, or a dict of columns)"),
    ],
)
def test_what_has_no_json_form_is_named(tmp_path: Path, dataset: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spill(dataset, str(tmp_path))
    assert str(caught.value) == message
