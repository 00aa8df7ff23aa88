"""Parquet files: one row group for each batch written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from .base import Writer, register


@register("writer", "parquet")
@dataclass(frozen=True)
class ParquetFiles(Writer):
    """Parquet with zstd (default), snappy or no compression."""

    compressions: ClassVar = ("zstd", "snappy", "none")
    suffix: ClassVar = ".parquet"

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_ParquetSink]:
        with pq.ParquetWriter(stream, schema, compression=self.codec) as writer:
            yield _ParquetSink(writer)


@dataclass(frozen=True)
class _ParquetSink:
    writer: pq.ParquetWriter

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.writer.write_batch(batch, row_group_size=batch.num_rows)
