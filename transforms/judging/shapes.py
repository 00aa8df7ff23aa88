"""JSON schemas of judges' answers, restricted to what every provider's structured output supports, and validation.

    object_of(explanation=TEXT, score=one_of(1, 2, 3, 4, 5))

The explanation comes first, since a model's verdict is informed by what it has written before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...schemas.json import Json
from ...schemas.values import number_in

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
BOOL: Schema = {"type": "boolean"}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}

_SHOWN = 100


class SchemaMismatch(ValueError):
    """A value does not match its schema; the message says where and why."""


def one_of(*choices: str | int) -> Schema:
    """Returns the schema of an enum of strings or of integers."""
    return {"type": "string" if isinstance(choices[0], str) else "integer", "enum": list(choices)}


def list_of(items: Schema) -> Schema:
    """Returns the schema of a list of any length."""
    return {"type": "array", "items": items}


def object_of(**properties: Schema) -> Schema:
    """Returns the schema of an object with exactly these properties, in this order."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def fit(value: Json, schema: Schema, place: str = "the answer") -> Json:
    """Validates a value and converts it to the schema's types.

    An integer may be given as 4.0, and a number as text ("4"); lone surrogates become U+FFFD; unknown keys are dropped.

    Raises:
        SchemaMismatch: The value does not match, or is a number that JSON cannot hold (NaN, infinite, beyond 64 bits).
    """
    kind = schema["type"]
    if isinstance(value, str):
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, str) and kind in ("integer", "number"):
        value = _number(value, kind, place)
    whole = kind == "integer" and isinstance(value, float) and value.is_integer()
    value = int(value) if whole else value
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        raise SchemaMismatch(f"{place} is {type_name(value)} (allowed: {kind})")
    if not _is_json_number(value):
        raise SchemaMismatch(f"{place} is not finite or beyond 64 bits (allowed: {kind})")
    if "enum" in schema and value not in schema["enum"]:
        raise SchemaMismatch(f"{place} is none of {', '.join(map(str, schema['enum']))}")
    if isinstance(value, list):
        return [fit(v, schema["items"], f"{place}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict):
        lacks = [name for name in schema["required"] if name not in value]
        if lacks:
            raise SchemaMismatch(f"{place} lacks {', '.join(lacks)}")
        inner = schema["properties"]
        return {name: fit(value[name], shape, name) for name, shape in inner.items() if name in value}
    return value


def _number(text: str, kind: str, place: str) -> int | float:
    number = number_in(text)
    if number is None:
        raise SchemaMismatch(f"{place} is {text[:_SHOWN]!r} (allowed: {kind})")
    return number


def _is_json_number(value: Json) -> bool:
    """Returns false for numbers that JSON cannot hold: NaN, infinities and integers beyond 64 bits."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 64


def type_name(value: Json) -> str:
    """Names the type of a value for messages."""
    return "null" if value is None else type(value).__name__
