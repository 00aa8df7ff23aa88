"""Datasets of many columns: their rows travel to the writer as JSON, and become arrays there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson
import pyarrow as pa

from .tables import PACKED, TYPES, Column, dataset_values, schema

_BYTES = 4 << 20
"""Bytes of rows as JSON that become one record batch, about."""


def unpacked(
    records: Iterable[pa.RecordBatch], dataset: Sequence[tuple[str, str]], columns: Sequence[Column]
) -> Iterator[pa.RecordBatch]:
    """Record batches with every column of a dataset, from such with `PACKED` in their place; many small ones as one.

    Args:
        records: What `instance_records` gave for a dataset of more than `WIDE` columns, in order.
        dataset: (name, type) of these columns.
        columns: All columns of the table.
    """
    target = schema(columns)
    for group in _groups(records):
        whole = pa.Table.from_batches(group).combine_chunks().to_batches()[0]
        place = _place(whole)
        rows = [orjson.loads(row) for row in whole.column(place).to_pylist()]
        found = [pa.array(dataset_values([row.get(n) for row in rows], t), TYPES[t]) for n, t in dataset]
        arrays = whole.columns
        yield pa.record_batch([*arrays[:place], *found, *arrays[place + 1 :]], schema=target)


def _place(batch: pa.RecordBatch) -> int:
    """Where the rows stand: the columns before them have other names, those behind them perhaps not."""
    return batch.schema.names.index(PACKED[0][0])


def _groups(records: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in records:
        held.append(batch)
        size += batch.column(_place(batch)).nbytes
        if size >= _BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held
