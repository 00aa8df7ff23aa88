"""Python values as JSON bytes: what converts without a loss does, the rest is named."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import orjson

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
_MAX_DEPTH = 200


class NotJson(ValueError):
    """A value has no JSON form; the message names its place and type."""


def jsonable(value: Any, lenient: frozenset[str] = frozenset()) -> bytes:
    """JSON of a value.

    Tuples and sets become lists (sets in the order of their JSON), pydantic models and dataclasses objects, dates ISO
    text, NumPy values numbers and lists; NaN and infinities become null, halves of surrogate pairs U+FFFD.

    Args:
        value: What to write.
        lenient: Top-level keys under which a value without a JSON form becomes "<TypeName>".

    Raises:
        NotJson: Bytes, integers beyond 64 bits, or objects of other types are in it, or it refers to itself.
    """
    try:
        return orjson.dumps(value, _default, _OPTIONS)
    except (TypeError, ValueError, RecursionError):
        pass
    if isinstance(value, Mapping):
        plain = {_key(k): _plain(v, str(k), (id(value),), k in lenient) for k, v in value.items()}
    else:
        plain = _plain(value, "it", (), False)
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


def _plain(value: Any, place: str, above: tuple[int, ...], lenient: bool) -> Any:
    """The value with all that orjson refuses converted; `above` are the ids of the containers it stands in."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if id(value) in above:
        return _refused(lenient, value, f"{place} refers to itself")
    if len(above) > _MAX_DEPTH:
        return _refused(lenient, value, f"{place} is nested deeper than {_MAX_DEPTH}")
    path = (*above, id(value))
    if isinstance(value, Mapping):
        return {_key(k): _plain(v, f"{place}.{k}"[-200:], path, lenient) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v, f"{place}[{i}]"[-200:], path, lenient) for i, v in enumerate(value)]
    try:
        orjson.dumps(value, _default, _OPTIONS)
    except (TypeError, ValueError, RecursionError):
        try:
            inner = _default(value)
        except Exception:
            return _refused(lenient, value, f"{place} is {_shown(value)}")
        return _plain(inner, place, path, lenient)
    return value


def _refused(lenient: bool, value: Any, why: str) -> str:
    if lenient:
        return f"<{type(value).__name__}>"
    raise NotJson(why.lstrip("."))


def _shown(value: Any) -> str:
    return "an integer beyond 64 bits" if isinstance(value, int) else type(value).__name__


def _key(key: Any) -> Any:
    return _plain(key, "", (), True) if isinstance(key, str) else key
