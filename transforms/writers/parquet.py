"""Parquet files with one row group per batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from .base import Writer, register

_WORDS = ("status", "error", "error_type", "pairwise_choice", "metric", "slice", "ci_method", "verdict", "code")


@register("writer", "parquet")
@dataclass(frozen=True)
class ParquetFiles(Writer):
    """Writes Parquet files with zstd (default), snappy or no compression."""

    compressions: ClassVar = ("zstd", "snappy", "none")
    suffix: ClassVar = ".parquet"

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_ParquetSink]:
        # Dictionary encoding pays off only for columns with few distinct values; for free text it is wasted work.
        words: Any = [f.name for f in schema if pa.types.is_string(f.type) and f.name.endswith(_WORDS)]
        with pq.ParquetWriter(stream, schema, compression=self.codec, use_dictionary=words) as writer:
            yield _ParquetSink(writer)


@dataclass(frozen=True)
class _ParquetSink:
    writer: pq.ParquetWriter

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.writer.write_batch(batch, row_group_size=batch.num_rows)
