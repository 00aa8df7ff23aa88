"""CSV files with a header row; a null is an empty cell, text is quoted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from .base import Writer, compressed, register

_FORMULA = r"^([=+\-@\t\r\n])"


@register("writer", "csv")
@dataclass(frozen=True)
class CsvFiles(Writer):
    """CSV, plain or gzip; `escape_formulas` puts an apostrophe before text that starts with = + - @ tab, CR or LF."""

    compressions: ClassVar = ("none", "gzip")
    suffix: ClassVar = ".csv"

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_CsvSink]:
        out = compressed(stream, self.codec)
        with pyarrow.csv.CSVWriter(out, schema) as writer:
            yield _CsvSink(writer, self.escape_formulas)
        if out is not stream:
            out.close()


@dataclass(frozen=True)
class _CsvSink:
    writer: Any
    escape: bool

    def write(self, batch: pa.RecordBatch) -> None:
        self.writer.write(_escaped(batch) if self.escape else batch)


def _escaped(batch: pa.RecordBatch) -> pa.RecordBatch:
    options = pc.ReplaceSubstringOptions(pattern=_FORMULA, replacement=r"'\1")
    columns = [
        pc.call_function("replace_substring_regex", [c], options) if pa.types.is_string(c.type) else c
        for c in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)
