"""Rows in memory, which are written once as JSONL and then read like any file."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from ...schemas.errors import ConfigError, RowError
from ...schemas.json import Json
from ...schemas.values import INT64, check_encodable, duration_text, parse_timestamp, time_text, timestamp_text
from ..io import storage

_ALLOWED = "a path, a pandas DataFrame, an iterable of dicts, or a dict of columns"
_CHUNK_ROWS = 1024


def spill(dataset: Any, folder: str) -> tuple[list[str], str]:
    """Writes rows in memory to `<folder>/rows.jsonl`, in order, on any filesystem that Beam can open.

    A DataFrame's index is not written (`reset_index()` makes it a column), and column names become text. Of a column's
    nulls only the first one is written, which shows that the column exists. Scalars, arrays and missing values of numpy
    and pandas follow the rules of readers/base.py; a number in a float column is a float.

    Args:
        dataset: A pandas DataFrame, an iterable of mappings (a generator is consumed), or a mapping from column names
            to lists of equal length.
        folder: Folder of the file, `<run>/input`.

    Returns:
        The paths and the name of their reader.

    Raises:
        ConfigError: The dataset is none of these, or a value has no JSON form; the message names row (from 0) and
            column.
    """
    path = storage.join(folder, "rows.jsonl")
    rows = iterate_rows(dataset)
    with storage.create(path) as file:
        named: set[str] = set()
        for number, row in enumerate(rows):
            file.write(_line(number, row, named))
    return [path], "jsonl"


def iterate_rows(dataset: Any) -> Iterator[Any]:
    """Yields the rows of a dataset in memory; raises a ConfigError if it is none."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(dataset, pandas.DataFrame):
        return _frame_rows(dataset)
    if isinstance(dataset, Mapping):
        return _column_rows(dataset)
    if isinstance(dataset, Iterable) and not isinstance(dataset, (str, bytes)):
        return iter(dataset)
    raise ConfigError(f"found {type(dataset).__name__}", where="dataset", allowed=_ALLOWED)


def _frame_rows(frame: Any) -> Iterator[dict[str, Any]]:
    names = [str(name) for name in frame.columns]
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ConfigError(f"two columns are named {twice[0]!r}", where="dataset", allowed="each name once")
    return (
        dict(zip(names, values, strict=True))
        for start in range(0, len(frame), _CHUNK_ROWS)
        for values in _frame_values(frame.iloc[start : start + _CHUNK_ROWS])
    )


def _frame_values(frame: Any) -> Iterable[Sequence[Any]]:
    columns = [frame.iloc[:, i].tolist() for i in range(frame.shape[1])]
    return zip(*columns, strict=True) if columns else [()] * len(frame)


def _column_rows(columns: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    lengths: dict[str, int] = {}
    for name, values in columns.items():
        if (
            isinstance(values, (str, bytes, Mapping))
            or not hasattr(values, "__len__")
            or getattr(values, "shape", 1) == ()
        ):
            raise ConfigError(f"column {name!r} is a {type(values).__name__}", where="dataset", allowed="a list")
        lengths[str(name)] = len(values)
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ConfigError(f"columns differ in length: {found}", where="dataset", allowed="columns of one length")
    lists = [values.tolist() if hasattr(values, "tolist") else values for values in columns.values()]
    return (dict(zip(lengths, values, strict=True)) for values in zip(*lists, strict=True))


def _line(number: int, row: Any, named: set[str]) -> bytes:
    """Encodes a row as a line; `named` has the columns of the rows so far and is updated."""
    if not isinstance(row, Mapping):
        raise ConfigError(f"found {type(row).__name__}", where=f"dataset[{number}]", allowed="a dict for each row")
    out: dict[str, Json] = {}
    for name, value in row.items():
        column = str(name)
        if column in out:
            raise ConfigError(f"two columns are named {column!r}", where=f"dataset[{number}]", allowed="each name once")
        try:
            out[column] = plain(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise _unusable(number, column, error) from None
    try:
        check_encodable(out)
    except RowError:
        for column, value in out.items():
            try:
                check_encodable({column: value})
            except RowError as error:
                raise _unusable(number, column, error) from None
    kept = {column: value for column, value in out.items() if value is not None or column not in named}
    named.update(kept)
    line = orjson.dumps(kept)
    if b"null" in line and _is_infinite(kept):  # orjson writes null for an infinity
        line = json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()
    return line + b"\n"


def _is_infinite(value: Json) -> bool:
    """Returns true if a value is an infinity or contains one."""
    if isinstance(value, float):
        return math.isinf(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_is_infinite, inner))


def _unusable(number: int, column: str, error: Exception) -> ConfigError:
    found = "found a value nested too deep, or in itself" if isinstance(error, RecursionError) else str(error)
    where = f"dataset[{number}][{column!r}]"
    return ConfigError(found.partition(" (allowed")[0][:300], where=where, allowed="values with a JSON form")


def plain(value: Any) -> Json:
    """Converts a Python, numpy or pandas value to JSON by the rules of readers/base.py; infinities are unchanged.

    Raises:
        TypeError: The value has no JSON form.
        ValueError, OverflowError: The value is a time outside the years 1 to 9999.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if value in INT64 else str(int(value))
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, Decimal):
        return None if value.is_nan() else format(value, "f")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return str(value)
    return _time(value) if isinstance(value, (date, time, timedelta)) else _array(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    known = plain(key)
    return known if isinstance(known, str) else orjson.dumps(known).decode()


def _time(value: Any) -> Json:
    """Converts times of Python and pandas; those of pandas are subclasses of Python's and may be NaT."""
    if value != value:
        return None
    if isinstance(value, datetime):
        to_python = getattr(value, "to_pydatetime", None)  # pandas' timestamps have additional nanoseconds
        return timestamp_text(to_python(warn=False) if to_python else value, getattr(value, "nanosecond", 0))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise TypeError("found a time of day with a zone")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return time_text(seconds * 10**9 + value.microsecond * 1000)
    microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    return duration_text(microseconds * 1000 + getattr(value, "nanoseconds", 0))


def _array(value: Any) -> Json:
    """Converts numpy's scalars and arrays, and pandas' missing value, series, indexes and extension arrays."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and value is pandas.NA:
        return None
    if numpy is not None:
        if isinstance(value, numpy.datetime64):
            return None if numpy.isnat(value) else parse_timestamp(str(value.astype("datetime64[ns]")))
        if isinstance(value, numpy.timedelta64):
            return None if numpy.isnat(value) else duration_text(int(value.astype("timedelta64[ns]").astype(int)))
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "mM":
            return plain(list(value))
        if isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufOUS":
            return plain((value.astype("float64") if value.dtype.kind == "f" else value).tolist())
    if pandas is not None and isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        return plain(value.tolist())
    raise TypeError(f"found a {type(value).__name__}")
