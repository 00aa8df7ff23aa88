"""Datasets with many columns: rows are passed to the writer as JSON and become arrays there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import orjson
import pyarrow as pa

from .json import Json
from .tables import PACKED, TYPES, Column, dataset_values, schema

_BYTES = 32 << 20
"""Approximate bytes of JSON rows in one record batch: arrays of few values take more memory than the values."""


def unpack_columns(
    records: Iterable[pa.RecordBatch], dataset: Sequence[tuple[str, str]], columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Replaces the column `PACKED` of record batches by the columns of the dataset, and merges small batches.

    Args:
        records: Output of `instance_records` for a dataset of more than `WIDE` columns, in order.
        dataset: (name, type) of the dataset's columns.
        columns: All columns of the table.
    """
    target = schema(columns)
    for group in _group_by_size(records):
        place = _find_packed(group[0])
        values = _list_values((b.column(place) for b in group), [name for name, _ in dataset])
        others = pa.Table.from_batches(group).remove_column(place).combine_chunks().to_batches()[0].columns
        group.clear()  # the JSON rows and their values go before the arrays come: each takes as much as the others
        unpacked = [pa.array(dataset_values(values.popleft(), t), TYPES[t]) for _, t in dataset]
        yield pa.record_batch([*others[:place], *unpacked, *others[place:]], schema=target)


def _list_values(packed: Iterable[pa.Array], names: Sequence[str]) -> deque[list[Json]]:
    """Returns the values of each column in JSON rows."""
    values: deque[list[Json]] = deque([] for _ in names)
    for rows in packed:
        for row in rows:  # one object at a time, since its keys take as much memory as its values
            found = orjson.loads(row.as_py())
            for name, column in zip(names, values, strict=True):
                column.append(found.get(name))
    return values


def _find_packed(batch: pa.RecordBatch) -> int:
    """Returns the index of the packed column: the first of its name, since a later column may have the same name."""
    return batch.schema.names.index(PACKED[0][0])


def _group_by_size(records: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in records:
        held.append(batch)
        size += batch.column(_find_packed(batch)).nbytes
        if size >= _BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held
