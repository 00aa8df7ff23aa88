"""Converts Arrow arrays to JSON values, by the rules of transforms/readers/base.py."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from .json import Json
from .values import INT64, duration_text, time_text, timestamp_text

_EPOCH = datetime(1970, 1, 1)
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def json_values(array: Any) -> list[Json]:
    """Converts an Arrow array to a list of JSON values.

    Raises:
        UnicodeDecodeError: A text is not UTF-8.
        OverflowError: A time is outside the years 1 to 9999.
        ValueError: The type has no JSON form.
    """
    return array.to_pylist() if _is_json(array) else _converter(array.type)(array)


def _is_json(array: Any) -> bool:
    """Returns true if Arrow's own, faster conversion gives the same values: no type to rewrite, no null in a struct."""
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
        return _uuids if kind.extension_name == "arrow.uuid" else lambda a: json_values(a.storage)
    for matches, convert in (
        (lambda k: is_text(k) or t.is_null(k), lambda a: a.to_pylist()),
        (t.is_uint64, _unsigned),
        (t.is_floating, _floats),
        (t.is_dictionary, lambda a: json_values(a.dictionary_decode())),
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


def find_infinite(batch: Any) -> list[str]:
    """Lists the float columns of a batch that contain an infinity."""
    import pyarrow as pa
    import pyarrow.compute as pc

    floats = ((f.name, c) for f, c in zip(batch.schema, batch.columns, strict=True) if pa.types.is_floating(f.type))
    is_inf: Any = pc.is_inf  # type: ignore[attr-defined]
    return [name for name, column in floats if is_inf(column.cast(pa.float64())).true_count]


def is_text(kind: Any) -> bool:
    """Returns true if values of the type are text."""
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

    values = array.cast(pa.float64()).to_pylist()
    return [v if v is None or math.isfinite(v) else _no_json(v) for v in values]


def _no_json(value: float) -> Json:
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _numbers(array: Any, scale: int, text: Callable[[int], str]) -> list[Json]:
    """Formats a column that Arrow stores as integers with `text`, multiplied by `scale` first."""
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
    flat, out, at = json_values(array.flatten()), [], 0
    for length in array.value_lengths().to_pylist():
        out.append(None if length is None else flat[at : at + length])
        at += length or 0
    return out


def _structs(array: Any) -> list[Json]:
    names = [field.name for field in array.type]
    columns = [json_values(child) for child in array.flatten()]
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
    keys = [k if isinstance(k, str) else orjson.dumps(k).decode() for k in json_values(array.keys.slice(first, size))]
    items = json_values(array.items.slice(first, size))
    out: list[Json] = []
    for valid, start, end in zip(array.is_valid().to_pylist(), offsets, offsets[1:], strict=False):
        inside = slice(start - first, end - first)
        out.append(dict(zip(keys[inside], items[inside], strict=True)) if valid else None)
    return out
