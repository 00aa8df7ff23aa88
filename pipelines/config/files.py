"""Reads configuration files from local disks or object storage."""

from __future__ import annotations

import json
from typing import Any

from ...schemas.config.yaml_text import load_yaml
from ...schemas.errors import ConfigError


def load(source: str) -> Any:
    """Reads a YAML or JSON file from any filesystem Beam opens.

    Raises:
        ConfigError: The file does not exist, is not UTF-8, or not valid; the message names file, line and column.
    """
    raw = read_bytes(source)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"found byte 0x{raw[error.start]:02x}"
        raise ConfigError(found, where=f"{source}, line {line}", allowed="UTF-8") from None
    if source.endswith(".json"):
        return _parse_json(text, source)
    return load_yaml(text, source)


def read_bytes(source: str) -> bytes:
    """Reads a file; raises a ConfigError if that is not possible."""
    try:
        if "://" in source:
            from ...transforms.io import storage

            if not storage.exists(source):
                raise FileNotFoundError(source)
            return storage.read_bytes(source)
        with open(source, "rb") as file:
            return file.read()
    except ConfigError:
        raise
    except FileNotFoundError:
        raise ConfigError("no such file", where=source) from None
    except IsADirectoryError:
        raise ConfigError("is a folder", where=source, allowed="a YAML or JSON file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {error}", where=repr(source)[:200]) from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"duplicate key {next(n for n in names if names.count(n) > 1)!r}")
    return mapping


def _parse_json(text: str, source: str) -> Any:

    try:
        return json.loads(text, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        where = f"{source}, line {error.lineno}, column {error.colno}"
        raise ConfigError(f"not valid JSON: {error.msg}", where=where) from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"not valid JSON: {error}", where=source) from None
