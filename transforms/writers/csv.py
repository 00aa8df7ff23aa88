"""CSV files with a header row; nulls are empty cells, text is quoted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from .base import Writer, compressed, register

_FORMULA = pc.ReplaceSubstringOptions(pattern=r"^([=+\-@\t\r\n])", replacement=r"'\1")


@register("writer", "csv")
@dataclass(frozen=True)
class CsvFiles(Writer):
    """Writes CSV files, plain or gzip.

    `escape_formulas` puts an apostrophe before text that starts with = + - @ tab, CR or LF, in cells and column names.
    JSON text is unchanged, since it is never a formula.
    """

    compressions: ClassVar = ("none", "gzip")
    suffix: ClassVar = ".csv"

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_CsvSink]:
        out = compressed(stream, self.codec)
        if self.escape_formulas:
            schema = pa.schema([field.with_name(_escaped(pa.scalar(field.name)).as_py()) for field in schema])
        with pyarrow.csv.CSVWriter(out, schema) as writer:
            yield _CsvSink(writer, schema, self.escape_formulas)
        if out is not stream:
            out.close()


@dataclass(frozen=True)
class _CsvSink:
    writer: Any
    schema: pa.Schema
    escape: bool

    def write(self, batch: pa.RecordBatch) -> None:
        columns = batch.columns
        if self.escape:
            columns = [_escaped(c) if _may_run(f) else c for f, c in zip(self.schema, columns, strict=True)]
        self.writer.write(pa.record_batch(columns, schema=self.schema))


def _may_run(field: pa.Field) -> bool:
    """Returns true if a spreadsheet could interpret cells of a column as formulas."""
    return pa.types.is_string(field.type) and (field.metadata or {}).get(b"evalbeam.type") != b"json"


def _escaped(text: Any) -> Any:
    return pc.call_function("replace_substring_regex", [text], _FORMULA)
