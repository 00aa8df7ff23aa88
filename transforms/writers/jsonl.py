"""JSON lines: one object per row with all columns in order, including nulls; infinities are "Infinity", "-Infinity"."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import orjson
import pyarrow as pa

from ...schemas.arrow import find_infinite
from .base import Writer, compressed, register


@register("writer", "jsonl")
@dataclass(frozen=True)
class JsonlFiles(Writer):
    """Writes JSON lines, plain or gzip."""

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
        columns = find_infinite(batch)
        for row in batch.to_pylist():
            row.update((name, _text(row[name])) for name in columns)
            self.out.write(orjson.dumps(row) + b"\n")


def _text(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else "Infinity" if number > 0 else "-Infinity"
