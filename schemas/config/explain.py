"""What is wrong with a configuration, in the words of someone who writes YAML."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from ..errors import ConfigError


def explained(error: ValidationError, source: str, model: Any) -> ConfigError:
    """What pydantic found, as an error that names the key, what stands there and what is allowed.

    Args:
        error: What pydantic raised.
        source: Name of the file.
        model: The model that was validated.
    """
    found = error.errors(include_url=False)
    first = found[0]
    if first["type"] == "missing":  # perhaps because its name is misspelt
        beside = (e for e in found if e["type"] == "extra_forbidden" and e["loc"][:-1] == first["loc"][:-1])
        first = next(beside, first)
    loc = [str(p) for p in first["loc"] if not str(p).startswith(("function-", "tagged-"))]
    loc = loc[:2] if loc[:2] == ["dataset", "path"] else loc  # beyond it stand the names of its types
    key = ".".join(loc)
    where = f"{source}: {key}" if source and key else key or source
    if first["type"] == "extra_forbidden":
        return unknown_key(loc[-1], _keys_at(model, loc[:-1]), where)
    if first["type"] == "missing":
        return ConfigError("missing", where=where)
    value = "something else" if loc[-1:] == ["secrets"] else shown(first["input"])
    return ConfigError(f"found {value}", where=where, allowed=_allowed(first, loc, model))


def unknown_key(key: str, known: Sequence[str], where: str) -> ConfigError:
    """What to say of a key that nobody knows: allowed are the nearest, or all where none is near."""
    near = difflib.get_close_matches(key, known, n=3) or known
    return ConfigError(f"unknown key {key!r}", where=where, allowed=", ".join(near))


_KINDS = {
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "too_short": "at least one",
}
"""What pydantic's types of errors ask for, in the words of someone who writes YAML."""


def _allowed(error: Any, loc: list[str], model: Any) -> str:
    if loc == ["dataset", "path"]:
        return "a path, or a list of paths"
    if error["type"] == "model_type":
        keys = _keys_at(model, loc)
        return f"a mapping with {', '.join(keys)}" if keys else "a mapping"
    return wanted(error)


def wanted(error: Any) -> str:
    """What one of pydantic's errors asks for."""
    return _KINDS.get(error["type"]) or error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")


def shown(value: Any) -> str:
    """A value as it may stand in a message: bounded, however large or entangled it is."""
    short = reprlib.Repr()
    short.maxlist = short.maxdict = short.maxtuple = 5
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 3, 100, 100, 60
    return "nothing" if value is None else short.repr(value)


def _keys_at(model: Any, loc: list[str]) -> list[str]:
    """Keys of the model at a place, through lists and mappings of models."""
    for step in loc:
        if get_origin(model) in (list, dict):
            model = get_args(model)[-1]
        else:
            field = getattr(model, "model_fields", {}).get(step)
            model = field.annotation if field else None
    fields = getattr(model, "model_fields", None) or {}
    return sorted(f.alias or name for name, f in fields.items())
