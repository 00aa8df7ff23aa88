"""Encodes Python values as JSON bytes; values that would lose information are errors."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import orjson

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_MAX_DEPTH = 200


class NotJson(ValueError):
    """A value has no JSON form; the message names its place and type."""


def jsonable(value: Any, lenient: frozenset[str] = frozenset()) -> bytes:
    """Encodes a value as JSON.

    Tuples and sets become lists (sets in the order of their JSON), pydantic models and dataclasses objects, dates ISO
    text, NumPy values numbers and lists; NaN and infinities become null, halves of surrogate pairs U+FFFD.

    Args:
        value: The value.
        lenient: Top-level keys under which a value without a JSON form becomes "<TypeName>".

    Raises:
        NotJson: The value contains bytes, integers beyond 64 bits or objects of other types, or refers to itself.
    """
    try:
        return orjson.dumps(value, _default, _OPTIONS)
    except (TypeError, ValueError, RecursionError):
        pass
    if isinstance(value, Mapping):
        plain = {_convert_key(k): _convert(v, str(k), (id(value),), k in lenient) for k, v in value.items()}
    else:
        plain = _convert(value, "it", (), False)
    try:
        return orjson.dumps(plain, _default, _OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None


def _default(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=jsonable)
    raise TypeError


def _convert(value: Any, place: str, above: tuple[int, ...], lenient: bool) -> Any:
    """Converts everything in a value that orjson refuses; `above` holds the ids of the enclosing containers."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if id(value) in above:
        return _refuse(lenient, value, f"{place} refers to itself")
    if len(above) > _MAX_DEPTH:
        return _refuse(lenient, value, f"{place} is nested deeper than {_MAX_DEPTH}")
    path = (*above, id(value))
    if isinstance(value, Mapping):
        return {_convert_key(k): _convert(v, f"{place}.{k}"[-200:], path, lenient) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert(v, f"{place}[{i}]"[-200:], path, lenient) for i, v in enumerate(value)]
    try:
        orjson.dumps(value, _default, _OPTIONS)
    except (TypeError, ValueError, RecursionError):
        try:
            inner = _default(value)
        except Exception:
            return _refuse(lenient, value, f"{place} is {_name_type(value)}")
        return _convert(inner, place, path, lenient)
    return value


def _refuse(lenient: bool, value: Any, why: str) -> str:
    if lenient:
        return f"<{type(value).__name__}>"
    raise NotJson(why.lstrip("."))


def _name_type(value: Any) -> str:
    return "an integer beyond 64 bits" if isinstance(value, int) else type(value).__name__


def _convert_key(key: Any) -> Any:
    return _convert(key, "", (), True) if isinstance(key, str) else key
