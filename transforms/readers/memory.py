"""Rows in memory, which are written once as JSONL and then read like any file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from ...schemas.errors import ConfigError, RowError
from ...schemas.json import Json
from ...schemas.plain_values import holds_infinity, plain
from ...schemas.values import check_encodable
from ..io import storage
from ._files import FileInfo

_ALLOWED = "a path, a pandas DataFrame, an iterable of dicts, or a dict of columns"
_CHUNK_ROWS = 1024


def spill(dataset: Any, folder: str) -> FileInfo:
    """Writes rows in memory to `<folder>/rows.jsonl`, in order, on any filesystem that Beam can open.

    A DataFrame's index is not written (`reset_index()` makes it a column), and column names become text. Of a column's
    nulls only the first one is written, which shows that the column exists. Scalars, arrays and missing values of numpy
    and pandas follow the rules of readers/base.py; a number in a float column is a float.

    Args:
        dataset: A pandas DataFrame, an iterable of mappings (a generator is consumed), or a mapping from column names
            to lists of equal length.
        folder: Folder of the file, `<run>/input`.

    Returns:
        The file.

    Raises:
        ConfigError: The dataset is none of these, or a value has no JSON form; the message names row (from 0) and
            column.
    """
    path = storage.join(folder, "rows.jsonl")
    rows, size = iterate_rows(dataset), 0
    with storage.create(path) as file:
        named: set[str] = set()
        for number, row in enumerate(rows):
            line = _line(number, row, named)
            file.write(line)
            size += len(line)
    return FileInfo(path, size, "jsonl")


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
    if b"null" in line and holds_infinity(kept):  # orjson writes null for an infinity
        line = json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()
    return line + b"\n"


def _unusable(number: int, column: str, error: Exception) -> ConfigError:
    found = "found a value nested too deep, or in itself" if isinstance(error, RecursionError) else str(error)
    where = f"dataset[{number}][{column!r}]"
    return ConfigError(found.partition(" (allowed")[0][:300], where=where, allowed="values with a JSON form")
