"""Configuration files, on a disk or on object storage."""

from __future__ import annotations

import json
from typing import Any

from ...schemas.config.yaml_text import load_yaml
from ...schemas.errors import ConfigError


def load(source: str) -> Any:
    """The value of a YAML or JSON file, on any filesystem Beam opens.

    Raises:
        ConfigError: There is no such file, it is not UTF-8, or no YAML; the message names file, line and column.
    """

    raw = _bytes(source)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"found byte 0x{raw[error.start]:02x}"
        raise ConfigError(found, where=f"{source}, line {line}", allowed="UTF-8") from None
    if source.endswith(".json"):
        return _json(text, source)
    return load_yaml(text, source)


def _bytes(source: str) -> bytes:
    try:
        if "://" in source:
            from ...transforms.io import storage

            if not storage.exists(source):
                raise FileNotFoundError(source)
            return storage.read_bytes(source)
        with open(source, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise ConfigError("no such file", where=source) from None
    except IsADirectoryError:
        raise ConfigError("is a folder", where=source, allowed="a YAML or JSON file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {error}", where=repr(source)[:200]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return found


def _json(text: str, source: str) -> Any:

    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"{source}, line {error.lineno}, column {error.colno}"
        raise ConfigError(f"not valid JSON: {error.msg}", where=where) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"not valid JSON: {error}", where=source) from None
