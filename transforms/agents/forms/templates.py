"""Templates of requests: JSON and addresses with `{name}` where a field of the row belongs.

Filled in one pass: what a field holds is never looked at for places again. `{{name}}` is the text `{name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def texts(template: Any) -> Iterator[str]:
    """All texts of a JSON value, keys left out."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from texts(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from texts(value)


def names(*templates: Any) -> tuple[str, ...]:
    """The fields that templates name, each once, in their order."""
    found = (match[2] for template in templates for text in texts(template) for match in _PLACE.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name))


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The JSON value with fields in their places.

    A text that is nothing but a place becomes the field's value, whatever its type; within a longer text, a value that
    is no text stands as JSON.

    Args:
        template: A JSON value.
        values: The fields; all that the template names.
    """
    if isinstance(template, str):
        whole = _PLACE.fullmatch(template)
        if whole and whole[2]:
            return values[whole[2]]
        return _PLACE.sub(lambda match: f"{{{match[1]}}}" if match[1] else as_text(values[match[2]]), template)
    if isinstance(template, Mapping):
        return {key: fill(value, values) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [fill(value, values) for value in template]
    return template


def fill_address(template: str, values: Mapping[str, Any]) -> str:
    """The address with fields in their places, escaped so that each stays within its part of the address."""
    return _PLACE.sub(
        lambda match: f"{{{match[1]}}}" if match[1] else quote(as_text(values[match[2]]), safe=""), template
    )


def as_text(value: Any) -> str:
    """A text itself, any other JSON value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
