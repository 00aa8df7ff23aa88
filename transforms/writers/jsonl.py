"""JSON lines: one object a row, all columns in order, nulls written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import orjson
import pyarrow as pa

from .base import Writer, compressed, register


@register("writer", "jsonl")
@dataclass(frozen=True)
class JsonlFiles(Writer):
    """JSON lines, plain or gzip."""

    compressions: ClassVar = ("none", "gzip")
    suffix: ClassVar = ".jsonl"

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_JsonlSink]:
        out = compressed(stream, self.codec)
        yield _JsonlSink(out)
        if out is not stream:
            out.close()


@dataclass(frozen=True)
class _JsonlSink:
    out: Any

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self.out.write(orjson.dumps(row) + b"\n")
