"""Parses hand-written JSON: trailing commas, and lists written by repeating their key."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from functools import partial
from typing import Any

from ..errors import RowError
from ..json import Json
from ..values import check_encodable, exact_integer, finite_float

_TRAILING_COMMA = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|,(?=\s*[}\]])', re.DOTALL)
_ALLOWED = "JSON; a comma may stand before a closing bracket"


def lenient_json(data: str | bytes, joined: Collection[str] = ()) -> Json:
    """Parses JSON text.

    A comma before a closing bracket is ignored; numbers follow the rules of transforms/readers/base.py.

    Args:
        data: JSON as text, or as bytes in UTF-8.
        joined: Keys that an object may repeat: their values are merged into one list.

    Raises:
        RowError: The text is not valid JSON, not UTF-8, nested too deeply, or repeats another key.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"found byte 0x{error.object[error.start]:02x} at byte {error.start + 1}"
        raise RowError("undecodable_bytes", f"{found} (allowed: UTF-8)") from None
    text = _TRAILING_COMMA.sub(lambda match: match[1] or " ", text)  # a blank, so that error positions stay the same
    try:
        value = json.loads(
            text,
            object_pairs_hook=partial(_object, joined),
            parse_constant=_refuse,
            parse_int=exact_integer,
            parse_float=finite_float,
        )
    except json.JSONDecodeError as error:
        near = text[error.pos : error.pos + 20]
        found = f"found {near!r}" if near else "found the end"
        place = f"line {error.lineno}, column {error.colno}"
        raise RowError("malformed_json", f"{place}: {error.msg}, {found} (allowed: {_ALLOWED})") from None
    except (RecursionError, ValueError) as error:
        raise RowError("malformed_json", f"{error} (allowed: {_ALLOWED})") from None
    check_encodable(value)
    return value


def _object(joined: Collection[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key not in found:
            found[key] = value
        elif key in joined:
            found[key] = [*_listed(found[key]), *_listed(value)]
        else:
            raise RowError("repeated_key", f"the key {key!r} stands twice in one object")
    return found


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refuse(word: str) -> None:
    raise ValueError(f"found {word}")
