"""Parquet: row groups as ranges, Arrow values as JSON values."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

import orjson

from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from ...schemas.instance import Json
from ...schemas.values import INT64, duration_text, parse_declared_json, time_text, timestamp_text
from .base import BLOCK_BYTES, BLOCK_ROWS, FileRange, Reader, Record, assemble, open_input, register

_EPOCH = datetime(1970, 1, 1)
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@register("reader", "parquet")
@dataclass(frozen=True)
class ParquetReader(Reader):
    """Apache Parquet; a range is a row group, a place the number of a row in it.

    What a broken footer or page makes unreadable is one rejected record.
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

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        return assemble(part, self._records(part))

    def _records(self, part: FileRange) -> Iterator[Record]:
        last = 0
        try:
            with _opened(part.file) as parquet:
                for batch in _batches(parquet, part.index):
                    size = batch.nbytes // max(batch.num_rows, 1)
                    for row, raw in self._rows(batch):
                        last += 1
                        yield Record(last, last, row, raw, size)
        except _DamageError as damage:
            yield Record(last + 1, last + 1, RowError("damaged_file", f"{damage}; the rest is not read"))

    def _rows(self, batch: Any) -> Iterator[tuple[dict[str, Json] | RowError, bytes]]:
        """Rows of an Arrow batch, or errors with what can be shown of the row."""
        names: list[str] = batch.schema.names
        try:
            columns = [_values(array) for array in batch.columns]
        except (ValueError, OverflowError):
            if batch.num_rows == 1:
                yield _unreadable(batch)
                return
            for i in range(batch.num_rows):
                yield from self._rows(batch.slice(i, 1))
            return
        texts = [f.name for f in batch.schema if self.columns.get(f.name) == "json" and _is_text(f.type)]
        for values in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
            row = dict(zip(names, values, strict=True))
            try:
                for name in texts:
                    if row[name] is not None:
                        row[name] = parse_declared_json(name, row[name])
                yield self.tidy(row), b""
            except RowError as error:
                yield error, orjson.dumps(row)


class _DamageError(Exception):
    """A file that is no Parquet, or no longer."""


@contextmanager
def _damage_only() -> Iterator[None]:
    """Tells what a file's bytes do wrong from what its storage does: that has an error number."""
    try:
        yield
    except (ValueError, ArithmeticError, LookupError, NotImplementedError, MemoryError) as error:
        raise _DamageError(_first_line(error)) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise _DamageError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


@contextmanager
def _opened(file: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    with open_input(file) as source:
        with _damage_only():
            parquet = pq.ParquetFile(source.stream, buffer_size=1 << 20, page_checksum_verification=True)
            names = parquet.schema_arrow.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise _DamageError(f"found two columns named {twice[0]!r} (allowed: each name once)")
        yield parquet


def _batches(parquet: Any, group: int) -> Iterator[Any]:
    """Record batches of one row group, small enough to be a block each."""
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


def _unreadable(batch: Any) -> tuple[RowError, bytes]:
    """Why a batch of one row cannot be read, and the columns that can."""
    shown: dict[str, Json] = {}
    found = RowError("invalid_value", "found a row that cannot be read")
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            shown[name] = _values(array)[0]
        except UnicodeDecodeError as error:
            what = f"found byte 0x{error.object[error.start]:02x} at byte {error.start + 1} (allowed: UTF-8)"
            found = RowError("undecodable_bytes", f"column {name!r}: {what}")
        except OverflowError:
            what = "found a time outside the years 1 to 9999 (allowed: years 1 to 9999)"
            found = RowError("invalid_value", f"column {name!r}: {what}")
        except ValueError as error:
            found = RowError("invalid_value", f"column {name!r}: {_first_line(error)}")
    return found, orjson.dumps(shown)


# ---------------------------------------------------------------------------------------------------- values


def _values(array: Any) -> list[Json]:
    """Values of an Arrow array under the rules of readers/base.py.

    Raises:
        UnicodeDecodeError: Text that is not UTF-8.
        OverflowError: A time outside the years 1 to 9999.
        ValueError: A type that has no JSON form.
    """
    return array.to_pylist() if _is_json(array) else _converter(array.type)(array)


def _is_json(array: Any) -> bool:
    """Whether Arrow's own, faster conversion gives the same: no type to rewrite, no null in a struct."""
    from pyarrow import types as t

    kind = array.type
    if t.is_list(kind) or t.is_large_list(kind):
        return _is_json(array.flatten())
    if t.is_struct(kind):
        return all(child.null_count == 0 and _is_json(child) for child in array.flatten())
    return t.is_string(kind) or t.is_boolean(kind) or (t.is_integer(kind) and not t.is_uint64(kind))


@lru_cache
def _converter(kind: Any) -> Callable[[Any], list[Json]]:
    import pyarrow as pa
    from pyarrow import types as t

    if isinstance(kind, pa.BaseExtensionType):
        return _uuids if kind.extension_name == "arrow.uuid" else lambda a: _values(a.storage)
    for matches, convert in (
        (lambda k: _is_text(k) or t.is_null(k), lambda a: a.to_pylist()),
        (t.is_uint64, _unsigned),
        (t.is_floating, _floats),
        (t.is_dictionary, lambda a: _values(a.dictionary_decode())),
        (t.is_struct, _structs),
        (t.is_map, _maps),
        (lambda k: t.is_list(k) or t.is_large_list(k) or t.is_fixed_size_list(k), _lists),
        (lambda k: t.is_list_view(k) or t.is_large_list_view(k), _lists),
        (t.is_timestamp, _timestamps),
        (t.is_date, _dates),
        (t.is_time, lambda a: _numbers(a, _UNITS[a.type.unit], time_text)),
        (t.is_duration, lambda a: _numbers(a, _UNITS[a.type.unit], duration_text)),
        (t.is_decimal, lambda a: [None if v is None else format(v, "f") for v in a.to_pylist()]),
        (_is_binary, lambda a: [None if v is None else base64.b64encode(v).decode() for v in a.to_pylist()]),
    ):
        if matches(kind):
            return convert
    raise ValueError(f"found the Arrow type {kind} (allowed: types with a JSON form)")


def _is_text(kind: Any) -> bool:
    from pyarrow import types as t

    storage = getattr(kind, "storage_type", kind)
    return t.is_string(storage) or t.is_large_string(storage) or t.is_string_view(storage)


def _is_binary(kind: Any) -> bool:
    from pyarrow import types as t

    return t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or t.is_binary_view(kind)


def _uuids(array: Any) -> list[Json]:
    return [None if v is None else str(UUID(bytes=v)) for v in array.storage.to_pylist()]


def _unsigned(array: Any) -> list[Json]:
    return [v if v is None or v in INT64 else str(v) for v in array.to_pylist()]


def _floats(array: Any) -> list[Json]:
    import pyarrow as pa

    return [v if v is not None and math.isfinite(v) else None for v in array.cast(pa.float64()).to_pylist()]


def _numbers(array: Any, scale: int, text: Callable[[int], str]) -> list[Json]:
    """Texts of a column that Arrow keeps as integers."""
    import pyarrow as pa

    integers = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32()).to_pylist()
    return [None if v is None else text(v * scale) for v in integers]


def _timestamps(array: Any) -> list[Json]:
    zone = UTC if array.type.tz is not None else None

    def text(nanoseconds: int) -> str:
        microseconds, rest = divmod(nanoseconds, 1000)
        return timestamp_text((_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=zone), rest)

    return _numbers(array, _UNITS[array.type.unit], text)


def _dates(array: Any) -> list[Json]:
    days = 1 if array.type.bit_width == 32 else 86_400_000
    return _numbers(array, 1, lambda v: (_EPOCH + timedelta(days=v // days)).date().isoformat())


def _lists(array: Any) -> list[Json]:
    flat, out, at = _values(array.flatten()), [], 0
    for length in array.value_lengths().to_pylist():
        out.append(None if length is None else flat[at : at + length])
        at += length or 0
    return out


def _structs(array: Any) -> list[Json]:
    names = [field.name for field in array.type]
    columns = [_values(child) for child in array.flatten()]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    out: list[Json] = [dict(zip(names, row, strict=True)) for row in rows]
    if any(None in column for column in columns):
        out = [{n: v for n, v in struct.items() if v is not None} for struct in out]
    if array.null_count:
        return [v if valid else None for v, valid in zip(out, array.is_valid().to_pylist(), strict=True)]
    return out


def _maps(array: Any) -> list[Json]:
    offsets = array.offsets.to_pylist()
    first, size = offsets[0], offsets[-1] - offsets[0]
    keys = [k if isinstance(k, str) else orjson.dumps(k).decode() for k in _values(array.keys.slice(first, size))]
    items = _values(array.items.slice(first, size))
    out: list[Json] = []
    for valid, start, end in zip(array.is_valid().to_pylist(), offsets, offsets[1:], strict=False):
        inside = slice(start - first, end - first)
        out.append(dict(zip(keys[inside], items[inside], strict=True)) if valid else None)
    return out
