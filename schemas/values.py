"""Foreign values as JSON values: exact parsing, declared column types, and the text forms of times.

The rules stand in one table in transforms/readers/base.py.
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
"""Levels of lists and objects in one row; encoders downstream allow 254 and wrap a row in a few of their own."""
DIGITS = bytes.maketrans(b"0123456789", b"0" * 10)
LONG = b"0" * 19
"""Digits, after `DIGITS`, of the shortest integers that may lie outside int64: orjson reads longer ones as floats."""
NOT_OPENERS = bytes(sorted(set(range(256)) - set(b"[{")))
_LONG_INTEGER = re.compile(rb"(?:^|[\s\[:,])-?[0-9]{19,}(?![0-9.eE])")
_OPENERS = frozenset('{["-0123456789tfn')
"""What JSON text begins with: most prose does not, and an error costs several times as much as the look."""
_SPARE_DEPTH = 254 - MAX_DEPTH


class Infinity(str):
    """An infinity as the text that stands for it in JSON; the class tells it from a text of these letters."""


INFINITIES = frozenset(("Infinity", "-Infinity"))


def infinity(word: str) -> Infinity | None:
    """What a row has for the words NaN, Infinity and -Infinity that some write into JSON: of NaN null."""
    return Infinity(word) if word in INFINITIES else None


def _no_number(_: str) -> None:
    return None


def parse_json(data: bytes, constant: Callable[[str], Json] = _no_number) -> Json:
    """A JSON text under the rules of this module.

    Args:
        data: The text.
        constant: What NaN, Infinity and -Infinity become, which are no JSON.

    Raises:
        RowError: It is no JSON, not UTF-8, holds a lone surrogate or is nested too deep.
    """
    try:
        return quick_json(data, constant)
    except orjson.JSONDecodeError:
        return exact_json(data, constant)


def quick_json(data: bytes, constant: Callable[[str], Json] = _no_number) -> Json:
    """`parse_json` with orjson's own `ValueError` where orjson reads nothing."""
    if LONG in data.translate(DIGITS) and _LONG_INTEGER.search(data):
        return exact_json(data, constant)
    value = orjson.loads(data)
    if len(data.translate(None, NOT_OPENERS)) > MAX_DEPTH:
        check_encodable(value)
    return value


def exact_json(data: bytes, constant: Callable[[str], Json] = _no_number) -> Json:
    """`parse_json` by the standard library: slow, but it knows NaN, long integers and where an error is."""
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
    """The integer, or its digits where it is beyond 64 bits."""
    if len(digits) < 19:
        return int(digits)
    return int(digits) if len(digits) <= 20 and int(digits) in INT64 else digits


def finite_float(digits: str) -> float | None:
    """The number, `None` where it is too large for float64."""
    value = float(digits)
    return value if math.isfinite(value) else None


def json_or_text(value: Json) -> Json:
    """The value of JSON text; other text (NaN alone, too), and what is no text, stands for itself."""
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
        RowError: It is nested too deep or holds a lone surrogate.
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
    """Mean of at least one number; they are added one after the other.

    `sum` corrects its rounding from Python 3.12 on: a score would depend on the version that computed it.
    """
    return reduce(add, values) / len(values)


def kind_of(value: Json) -> str:
    """What a JSON value is, in words."""
    if value is None:
        return "null"
    words = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    return words.get(type(value), "an object")


def fit(name: str, kind: str, value: Json) -> Json:
    """A JSON value that is not null as its column's declared type.

    Raises:
        RowError: It does not fit.
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
    """The value of a text that its column's declared type, json, makes JSON text.

    Raises:
        RowError: It is no JSON text.
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
"""What a value of each declared type is, in words."""


def misfit(name: str, kind: str, found: str) -> RowError:
    """The error of a value that is not of its column's declared type."""
    short = found if len(found) <= 100 else found[:100] + "..."
    return RowError("wrong_type", f"column {name!r}: found {short} (allowed: {ALLOWED[kind]})")


_FRACTION = re.compile(r"(.+[T ]\d\d:?\d\d:?\d\d)[.,](\d{7,})(Z|[+-][\d:]+)?", re.ASCII)


def parse_timestamp(text: str) -> str:
    """ISO 8601 text in the one form that timestamps have here; a date alone is its midnight.

    Raises:
        ValueError, OverflowError: It is none, has more than nine fraction digits, or lies outside the years 1 to 9999.
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
    """A timestamp as text; `nanoseconds` in [0, 1000) beyond its microseconds.

    Raises:
        OverflowError: In UTC it lies outside the years 1 to 9999.
    """
    zone = ""
    if moment.tzinfo is not None:
        moment, zone = moment.astimezone(UTC).replace(tzinfo=None), "Z"
    if nanoseconds:
        return f"{moment.isoformat(timespec='microseconds')}{nanoseconds:03d}{zone}"
    return moment.isoformat() + zone


def time_text(nanoseconds: int) -> str:
    """A time of day, given in nanoseconds since midnight, as text."""
    return timestamp_text(datetime.min + timedelta(microseconds=nanoseconds // 1000), nanoseconds % 1000)[11:]


def duration_text(nanoseconds: int) -> str:
    """A duration as ISO 8601 text in seconds."""
    seconds, rest = divmod(abs(nanoseconds), 10**9)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if nanoseconds < 0 else ''}PT{seconds}{fraction}S"


def slice_text(value: Json) -> str | None:
    """A column's value as a slice shows it: a string as it is, a missing one `None`, any other as its JSON text.

    Numbers are equal as JSON's are: 1.0 is 1.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # integers beyond 64 bits
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
