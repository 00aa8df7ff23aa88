"""Parquet files; the row groups are the ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from .base import BLOCK_BYTES, BLOCK_ROWS, ArrowReader, FileRange, first_line, open_input, register, reject


@register("reader", "parquet")
@dataclass(frozen=True)
class ParquetReader(ArrowReader):
    """Reads Apache Parquet files; a range is a row group, and a line is the number of a row in it.

    The part of a file that a damaged footer or page makes unreadable is one rejected record.
    """

    suffixes: ClassVar = (".parquet", ".pq")

    def split(self, file: str, size: int) -> list[FileRange]:
        ranges, row = [], 0
        try:
            with _opened(file) as parquet:
                for i in range(parquet.metadata.num_row_groups):
                    end = row + parquet.metadata.row_group(i).num_rows
                    ranges.append(FileRange(file, i, row, end))
                    row = end
        except _DamageError:
            return [FileRange(file, 0, 0, None)]
        return ranges

    def count(self, file: str, size: int) -> int | None:
        return max((part.end or 0 for part in self.split(file, size)), default=0)

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        last = 0
        try:
            with _opened(part.file) as parquet:
                for batch in _batches(parquet, part.index):
                    yield from self.blocks(part, batch, last)
                    last += batch.num_rows
        except _DamageError as damage:
            error = RowError("damaged_file", f"{damage}; the rest is not read")
            yield RowBlock(part.file, part.index, [], [reject(part, last + 1, error, b"")], last + 1)


class _DamageError(Exception):
    """A file that is not Parquet or is damaged."""


@contextmanager
def _damage_only() -> Iterator[None]:
    """Converts errors in a file's bytes to `_DamageError`; storage errors, which have an errno, pass through."""
    try:
        yield
    except (ValueError, ArithmeticError, LookupError, NotImplementedError, MemoryError) as error:
        raise _DamageError(first_line(error)) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _DamageError(first_line(error)) from None


@contextmanager
def _opened(file: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with open_input(file) as source:
        with _damage_only():
            parquet = pq.ParquetFile(source.stream, buffer_size=1 << 20, page_checksum_verification=True)
            names = parquet.schema_arrow.names
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise _DamageError(f"found two columns named {twice[0]!r} (allowed: each name once)")
        yield parquet


def _batches(parquet: Any, group: int) -> Iterator[Any]:
    """Yields the record batches of one row group, each about the size of a block."""
    with _damage_only():
        facts = parquet.metadata.row_group(group)
        row_bytes = facts.total_byte_size // max(facts.num_rows, 1)
        rows = max(1, min(BLOCK_ROWS, BLOCK_BYTES // max(row_bytes, 1)))
        batches = parquet.iter_batches(batch_size=rows, row_groups=[group], use_threads=False)
    while True:
        with _damage_only():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
