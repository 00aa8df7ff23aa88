"""Values of Python, numpy and pandas as JSON."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from .json import Json
from .values import INT64, duration_text, parse_timestamp, time_text, timestamp_text


def plain(value: Any) -> Json:
    """Converts a Python, numpy or pandas value to JSON by the rules of readers/base.py; infinities are unchanged.

    Raises:
        TypeError: The value has no JSON form.
        ValueError, OverflowError: The value is a time outside the years 1 to 9999.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if value in INT64 else str(int(value))
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, Mapping):
        return {_key(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, Decimal):
        return None if value.is_nan() else format(value, "f")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return str(value)
    return _time(value) if isinstance(value, (date, time, timedelta)) else _array(value)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    known = plain(key)
    return known if isinstance(known, str) else orjson.dumps(known).decode()


def _time(value: Any) -> Json:
    """Converts times of Python and pandas; those of pandas are subclasses of Python's and may be NaT."""
    if value != value:
        return None
    if isinstance(value, datetime):
        to_python = getattr(value, "to_pydatetime", None)  # pandas' timestamps have additional nanoseconds
        return timestamp_text(to_python(warn=False) if to_python else value, getattr(value, "nanosecond", 0))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise TypeError("found a time of day with a zone")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return time_text(seconds * 10**9 + value.microsecond * 1000)
    microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    return duration_text(microseconds * 1000 + getattr(value, "nanoseconds", 0))


def _array(value: Any) -> Json:
    """Converts numpy's scalars and arrays, and pandas' missing value, series, indexes and extension arrays."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and value is pandas.NA:
        return None
    if numpy is not None:
        if isinstance(value, numpy.datetime64):
            return None if numpy.isnat(value) else parse_timestamp(str(value.astype("datetime64[ns]")))
        if isinstance(value, numpy.timedelta64):
            return None if numpy.isnat(value) else duration_text(int(value.astype("timedelta64[ns]").astype(int)))
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "mM":
            return plain(list(value))
        if isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufOUS":
            return plain((value.astype("float64") if value.dtype.kind == "f" else value).tolist())
    if pandas is not None and isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        return plain(value.tolist())
    raise TypeError(f"found a {type(value).__name__}")


def holds_infinity(value: Json) -> bool:
    """Returns true if a value is an infinity or contains one."""
    if isinstance(value, float):
        return math.isinf(value)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(holds_infinity, inner))
