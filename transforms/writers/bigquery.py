"""Parquet files for a BigQuery load job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from ...schemas.warehouse import Stamp
from .base import Sink, Writer, register


@register("writer", "bigquery")
@dataclass(frozen=True)
class BigQueryFiles(Writer):
    """Writes files for BigQuery with another writer (Parquet): adds the run to each row and makes column names valid.

    Columns without any value are left out: as text they would conflict with the type of a later run's values.

    Attributes:
        files: The other writer.
        stamp: The run's columns.
    """

    files: Any = None
    stamp: Stamp = field(default_factory=lambda: Stamp(""))

    @property
    def ending(self) -> str:
        return self.files.ending

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_Stamped]:
        kept = [i for i, f in enumerate(schema) if (f.metadata or {}).get(b"evalbeam.type") != b"null"]
        target = self.stamp.schema(pa.schema([schema.field(i) for i in kept]))
        with self.files.open(stream, target) as sink:
            yield _Stamped(sink, target, self.stamp, kept)


@dataclass(frozen=True)
class _Stamped:
    sink: Sink
    schema: pa.Schema
    stamp: Stamp
    kept: Sequence[int]

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [*self.stamp.arrays(batch.num_rows), *(batch.column(i) for i in self.kept)]
        self.sink.write(pa.record_batch(columns, schema=self.schema))
