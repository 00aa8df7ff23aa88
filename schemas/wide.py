"""Datasets with many columns: rows are passed to the writer as JSON and become arrays there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson
import pyarrow as pa

from .tables import PACKED, TYPES, Column, dataset_values, schema

_BYTES = 4 << 20
"""Approximate bytes of JSON rows in one record batch."""


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
        whole = pa.Table.from_batches(group).combine_chunks().to_batches()[0]
        place = _find_packed(whole)
        rows = [orjson.loads(row) for row in whole.column(place).to_pylist()]
        unpacked = [pa.array(dataset_values([row.get(n) for row in rows], t), TYPES[t]) for n, t in dataset]
        arrays = whole.columns
        yield pa.record_batch([*arrays[:place], *unpacked, *arrays[place + 1 :]], schema=target)


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
