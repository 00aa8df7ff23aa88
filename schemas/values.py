"""Converts external values to JSON values: exact parsing, declared column types, and text forms of times.

The rules are in the table of transforms/readers/base.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import add
from typing import NoReturn

import orjson

from .errors import RowError
from .json import Json

INT64 = range(-(2**63), 2**63)
MAX_DEPTH = 200
"""Maximum nesting of lists and objects in one row; later encoders allow 254 levels and add a few of their own."""
DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
LONG = b"0" * 19
"""Shortest run of digits, translated by `DIGITS`, that may exceed int64: orjson reads such integers as floats."""
NOT_OPENERS = bytes(sorted(set(range(256)) - set(b"[{")))
_LONG_INTEGER = re.compile(rb"(?:^|[\s\[:,])-?[0-9]{19,}(?![0-9.eE])")
_OPENERS = frozenset('{["-0123456789tfn')
"""First characters of JSON text. Most prose starts differently, and a failed parse costs far more than this check."""
_SPARE_DEPTH = 254 - MAX_DEPTH


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


class Infinity(str):
    """The JSON text of an infinity; the class distinguishes it from an ordinary string."""


INFINITIES = frozenset(("Infinity", "-Infinity"))


def parse_infinity(word: str) -> Infinity | None:
    """Converts the non-standard JSON constants Infinity and -Infinity to `Infinity`, and NaN to `None`."""
    return Infinity(word) if word in INFINITIES else None


def _no_number(_: str) -> None:
    return None


def number_in(text: str) -> int | float | None:
    """Returns the number that a text is as JSON writes it ("4", " 0.5 "), or `None` if the text is anything else."""
    text = text.strip()
    if _NUMBER.fullmatch(text) is None:
        return None
    return int(text) if len(text) < len(LONG) and text.lstrip("-").isdigit() else float(text)


def parse_json(data: bytes, constant: Callable[[str], Json] = _no_number) -> Json:
    """Parses JSON text by the rules of this module.

    Args:
        data: JSON text in UTF-8.
        constant: Converts NaN, Infinity and -Infinity, which are not valid JSON.

    Raises:
        RowError: The text is not valid JSON, not UTF-8, has a lone surrogate or is nested too deeply.
    """
    try:
        return quick_json(data, constant)
    except orjson.JSONDecodeError:
        return exact_json(data, constant)


def quick_json(data: bytes, constant: Callable[[str], Json] = _no_number) -> Json:
    """Parses JSON as `parse_json` does, but raises orjson's `ValueError` if orjson cannot."""
    if LONG in data.translate(DIGITS) and _LONG_INTEGER.search(data):
        return exact_json(data, constant)
    value = orjson.loads(data)
    if len(data.translate(None, NOT_OPENERS)) > MAX_DEPTH:
        check_encodable(value)
    return value


def exact_json(data: bytes, constant: Callable[[str], Json] = _no_number) -> Json:
    """Parses JSON with the standard library: slow, but it handles NaN, long integers and the positions of errors."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        found = f"found byte 0x{data[error.start]:02x} at byte {error.start + 1}"
        raise RowError("undecodable_bytes", f"{found} (allowed: UTF-8)") from None
    try:
        value = json.loads(text, parse_constant=constant, parse_int=exact_integer, parse_float=finite_float)
    except json.JSONDecodeError as error:
        near = text[error.pos : error.pos + 20]
        found = f"{error.msg} at character {error.pos + 1}, found {near!r}" if near else f"{error.msg}, found the end"
        raise RowError("malformed_json", f"{found} (allowed: JSON)") from None
    except RecursionError:
        _too_deep()
    check_encodable(value)
    return value


def exact_integer(digits: str) -> int | str:
    """Parses an integer; returns its digits if it exceeds 64 bits."""
    if len(digits) < 19:
        return int(digits)
    return int(digits) if len(digits) <= 20 and int(digits) in INT64 else digits


def finite_float(digits: str) -> float | None:
    """Parses a float; `None` if it is too large for float64."""
    value = float(digits)
    return value if math.isfinite(value) else None


def json_or_text(value: Json) -> Json:
    """Parses JSON text; other text (a single NaN too) and other values are returned unchanged."""
    opener = value.lstrip()[:1] if isinstance(value, str) else ""
    if opener not in _OPENERS:
        return value
    try:
        data = value.encode()
        return parse_json(data) if opener in "{[" else quick_json(data)
    except (ValueError, RowError):
        return value


def check_encodable(value: Json) -> None:
    """Checks that a value can be written as JSON.

    Raises:
        RowError: The value is nested too deeply or has a lone surrogate.
    """
    nested = value
    for _ in range(_SPARE_DEPTH):
        nested = [nested]
    try:
        orjson.dumps(nested)
    except TypeError:
        if _deeper(value, MAX_DEPTH):
            _too_deep()
        raise RowError("lone_surrogate", "found half a surrogate pair in a text (allowed: Unicode text)") from None


def _deeper(value: Json, levels: int) -> bool:
    if not isinstance(value, (list, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(v, levels - 1) for v in inner)


def _too_deep() -> NoReturn:
    raise RowError("too_deep", f"found lists and objects nested too deep (allowed: {MAX_DEPTH} levels)") from None


def mean(values: Sequence[float]) -> float:
    """Returns the mean of at least one number, by adding them one after the other.

    Since Python 3.12, `sum` compensates rounding errors: with it, scores would depend on the Python version.
    """
    return reduce(add, values) / len(values)


def kind_of(value: Json) -> str:
    """Names the type of a JSON value."""
    if value is None:
        return "null"
    words = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    return words.get(type(value), "an object")


def fit(name: str, kind: str, value: Json) -> Json:
    """Converts a non-null JSON value to the declared type of its column.

    Raises:
        RowError: The value does not fit the type.
    """
    found = type(value)
    if kind == "json" or (kind == "string" and found is str) or (kind == "bool" and found is bool):
        return value
    if kind == "int64" and found is int and value in INT64:
        return value
    if kind == "float64" and (found in (int, float) or (found is str and value in INFINITIES)):
        return value if found is str else float(value)
    if kind == "timestamp" and found is str:
        try:
            return parse_timestamp(value)
        except (ValueError, OverflowError):
            pass
    raise misfit(name, kind, orjson.dumps(value).decode())


def parse_declared_json(name: str, text: str) -> Json:
    """Parses the text of a column of declared type json.

    Raises:
        RowError: The text is not valid JSON.
    """
    try:
        return parse_json(text.encode("utf-8", "surrogateescape"))
    except RowError as error:
        raise RowError("wrong_type", f"column {name!r}: {error.message}") from None


ALLOWED = {
    "string": "a string",
    "int64": "an integer of 64 bits",
    "float64": "a number",
    "bool": "true or false",
    "timestamp": "ISO 8601 text such as 2024-03-30T12:00:00Z",
    "json": "JSON",
}
"""Allowed values of each declared type, for messages."""


def misfit(name: str, kind: str, found: str) -> RowError:
    """Builds the error of a value that does not fit the declared type of its column."""
    short = found if len(found) <= 100 else found[:100] + "..."
    return RowError("wrong_type", f"column {name!r}: found {short} (allowed: {ALLOWED[kind]})")


_FRACTION = re.compile(r"(.+[T ]\d\d:?\d\d:?\d\d)[.,](\d{7,})(Z|[+-][\d:]+)?", re.ASCII)


def parse_timestamp(text: str) -> str:
    """Normalizes an ISO 8601 timestamp to the form of `timestamp_text`; a date alone is its midnight.

    Raises:
        ValueError: The text is not a timestamp, or has more than nine fraction digits.
        OverflowError: The timestamp is outside the years 1 to 9999.
    """
    match = _FRACTION.fullmatch(text)
    if not match:
        if len(text) > 40:
            raise ValueError("too long")
        return timestamp_text(datetime.fromisoformat(text))
    seconds, fraction, zone = match.groups()
    if len(fraction) > 9:
        raise ValueError("more than nine fraction digits")
    nanoseconds = int(fraction.ljust(9, "0"))
    moment = datetime.fromisoformat(seconds + (zone or "")) + timedelta(microseconds=nanoseconds // 1000)
    return timestamp_text(moment, nanoseconds % 1000)


def timestamp_text(moment: datetime, nanoseconds: int = 0) -> str:
    """Formats a timestamp; `nanoseconds`, in [0, 1000), add to its microseconds.

    Raises:
        OverflowError: In UTC the timestamp is outside the years 1 to 9999.
    """
    zone = ""
    if moment.tzinfo is not None:
        moment, zone = moment.astimezone(UTC).replace(tzinfo=None), "Z"
    if nanoseconds:
        return f"{moment.isoformat(timespec='microseconds')}{nanoseconds:03d}{zone}"
    return moment.isoformat() + zone


def time_text(nanoseconds: int) -> str:
    """Formats a time of day, given in nanoseconds since midnight."""
    return timestamp_text(datetime.min + timedelta(microseconds=nanoseconds // 1000), nanoseconds % 1000)[11:]


def duration_text(nanoseconds: int) -> str:
    """Formats a duration as ISO 8601 text in seconds."""
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if nanoseconds < 0 else ''}PT{seconds}{fraction}S"


def slice_text(value: Json) -> str | None:
    """Converts a column's value to its text in a slice: strings are kept, others become JSON text, missing ones `None`.

    Numbers compare as in JSON: 1.0 equals 1.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # integers beyond 64 bits
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
