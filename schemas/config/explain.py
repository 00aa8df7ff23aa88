"""Translates pydantic's errors about a configuration into the terms of someone who writes YAML."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from ..addresses import hide_secrets
from ..errors import ConfigError, ConfigErrors, name_error


def explain_error(error: ValidationError, source: str, model: Any) -> ConfigError:
    """Converts an error of pydantic to one that names each key, the value found and the values allowed.

    Args:
        error: The error of pydantic.
        source: Name of the file.
        model: The model that was validated.
    """
    errors = error.errors(include_url=False)
    unknown = {e["loc"][:-1] for e in errors if e["type"] == "extra_forbidden"}
    # A misspelt key explains more than the missing one beside it.
    shown = [e for e in errors if e["type"] != "missing" or e["loc"][:-1] not in unknown]
    found: dict[str, ConfigError] = {}
    for one in shown:  # a union gives one error for each of its types
        explained = _explain_one(one, source, model)
        found.setdefault(explained.where, explained)
    explained = list(found.values())
    return explained[0] if len(explained) == 1 else ConfigErrors(explained)


def _explain_one(first: Any, source: str, model: Any) -> ConfigError:
    loc = [str(p) for p in first["loc"] if not str(p).startswith(("function-", "tagged-"))]
    loc = loc[:2] if loc[:2] == ["dataset", "path"] else loc  # pydantic appends the types of the union
    key = ".".join(loc)
    where = f"{source}: {key}" if source and key else key or source
    if first["type"] == "extra_forbidden":
        return unknown_key(loc[-1], list_keys_at(model, loc[:-1]), where)
    if first["type"] == "missing":
        return ConfigError("missing", where=where)
    value = "something else" if loc[-1:] == ["secrets"] else show_value(first["input"])
    return ConfigError(f"found {value}", where=where, allowed=_describe_allowed_at(first, loc, model))


def unknown_key(key: str, known: Sequence[str], where: str) -> ConfigError:
    """Builds the error of an unknown key."""
    return name_error(f"unknown key {key!r}", key, known, where)


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
"""Allowed values by pydantic's error type, in the terms of someone who writes YAML."""


def _describe_allowed_at(error: Any, loc: list[str], model: Any) -> str:
    if loc == ["dataset", "path"]:
        return "a path, or a list of paths"
    if error["type"] == "model_type":
        keys = list_keys_at(model, loc)
        return f"a mapping with {', '.join(keys)}" if keys else "a mapping"
    return describe_allowed(error)


def describe_allowed(error: Any) -> str:
    """Describes the values that an error of pydantic allows."""
    return _KINDS.get(error["type"]) or error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")


class _WithoutSecrets(reprlib.Repr):
    """Shortens texts after the passwords in their addresses are hidden."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(hide_secrets(x), level)


def show_value(value: Any) -> str:
    """Formats a value for a message, with bounded length and depth, and no password of an address."""
    short = _WithoutSecrets()
    short.maxlist = short.maxdict = short.maxtuple = 5
    short.maxlevel, short.maxstring, short.maxother, short.maxlong = 3, 100, 100, 60
    return "nothing" if value is None else short.repr(value)


def list_keys_at(model: Any, loc: list[str]) -> list[str]:
    """Lists the keys of the model at a location, through lists and mappings of models."""
    for step in loc:
        if get_origin(model) in (list, dict):
            model = get_args(model)[-1]
        else:
            field = getattr(model, "model_fields", {}).get(step)
            model = field.annotation if field else None
    fields = getattr(model, "model_fields", None) or {}
    return sorted(f.alias or name for name, f in fields.items())
