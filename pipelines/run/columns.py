"""The instances table of a finished run by column, some rows at a time, whatever the format of its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from ...schemas.names import WORD_SCORES
from ...schemas.tables import TYPES
from ...transforms.io import storage
from .result import EvaluationResult
from .tables import Row, instance_files, names_of_instances, rows_of, types_of_instances

compute: Any = pyarrow.compute
"""Functions of pyarrow, which are made when it is imported, so that type checkers do not know them."""

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
_ROWS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 64 << 20
_ROWS_OF_TEXT = 1024


def read_columns(result: EvaluationResult, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yields the rows of the instances table in order, under our own column names, in tables of at least one row.

    A table has up to 65,536 rows or 64 MB. Values are as they are stored, see `as_floats`.

    Args:
        result: A run.
        columns: Those wanted, as far as the run has them; default: all.

    Raises:
        ConfigError: The run wrote no instances table.
    """
    paths, names = instance_files(result), names_of_instances(result)
    wanted = [name for name in (names if columns is None else dict.fromkeys(columns)) if name in names]
    if not all(path.endswith(".parquet") for path in paths):
        yield from _read_texts(result, wanted)
        return
    stored = [names[name] for name in wanted]
    for path in paths:
        with storage.opened(path) as stream:
            file = pq.ParquetFile(stream)
            for groups in _list_groups(file.metadata, stored):
                yield file.read_row_groups(groups, columns=stored).select(stored).rename_columns(wanted)


def schema_of_texts(result: EvaluationResult, columns: Sequence[str]) -> pa.Schema:
    """Returns the types of columns that are read from JSONL or CSV."""
    types = types_of_instances(result)
    return pa.schema([pa.field(name, TYPES[_stored(name, types[name])]) for name in columns])


def as_floats(column: pa.ChunkedArray) -> Floats:
    """Converts a column to numbers, NaN where there is none; a judge's words, which some tables have, to scores."""
    if pa.types.is_string(column.type):
        made = np.full(len(column), np.nan)
        for word, score in WORD_SCORES.items():
            made[compute.equal(column, word).fill_null(False).to_numpy()] = score
        return made
    return column.cast(pa.float64(), safe=False).to_numpy()


def _list_groups(file: pq.FileMetaData, stored: Sequence[str]) -> Iterator[list[int]]:
    """Yields the groups of rows of a file that are read together."""
    places = [i for i, name in enumerate(file.schema.names) if name in set(stored)]
    some: list[int] = []
    rows = size = 0
    for number in range(file.num_row_groups):
        group = file.row_group(number)
        held = sum(group.column(place).total_uncompressed_size for place in places)
        if some and (rows + group.num_rows > _ROWS_AT_ONCE or size + held > _BYTES_AT_ONCE):
            yield some
            some, rows, size = [], 0, 0
        if group.num_rows:
            some, rows, size = [*some, number], rows + group.num_rows, size + held
    if some:
        yield some


def _read_texts(result: EvaluationResult, names: Sequence[str]) -> Iterator[pa.Table]:
    """Reads a table in JSONL or CSV."""
    schema = schema_of_texts(result, names)
    left = rows_of(result, "instances", names)
    while rows := list(islice(left, _ROWS_OF_TEXT)):
        yield pa.table(list(_make_columns(rows, schema)), schema=schema)


def _stored(name: str, kind: str) -> str:
    """The type of a column whose cells `rows_of` reads: a judge's yes and no are numbers by then."""
    return "float64" if name.endswith("/score") else kind


def _make_columns(rows: Sequence[Row], schema: pa.Schema) -> Iterator[pa.Array]:
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_floating(field.type):
            values = [None if value is None else float(value) for value in values]
        elif pa.types.is_boolean(field.type):
            values = [value if value is None else str(value).lower() == "true" for value in values]
        yield pa.array(values, field.type)
