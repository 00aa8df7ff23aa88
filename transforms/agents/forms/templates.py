"""Request templates: JSON and URLs with `{name}` placeholders for fields of the row.

Placeholders are replaced in one pass, so placeholders within a field's value stay as they are. `{{name}}` is an
escaped `{name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import orjson

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")


def iter_texts(template: Any) -> Iterator[str]:
    """Yields all strings of a JSON value, without its keys."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from iter_texts(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from iter_texts(value)


def find_names(*templates: Any) -> tuple[str, ...]:
    """Returns the distinct placeholders of the templates, in order of first use."""
    found = (match[2] for template in templates for text in iter_texts(template) for match in _PLACE.finditer(text))
    return tuple(dict.fromkeys(name for name in found if name))


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """Replaces the placeholders of a JSON value.

    A string that is exactly one placeholder becomes the field's value with its own type. Within a longer string, a
    value that is not a string is written as JSON.

    Args:
        template: A JSON value.
        values: The fields; must include every placeholder of the template.
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
    """Replaces the placeholders of a URL; values are percent-encoded, so that they cannot change its structure."""
    return _PLACE.sub(
        lambda match: f"{{{match[1]}}}" if match[1] else quote(as_text(values[match[2]]), safe=""), template
    )


def as_text(value: Any) -> str:
    """Returns a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
