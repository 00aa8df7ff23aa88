"""YAML and JSON text as values, refused where it would grow without bound."""

from __future__ import annotations

import functools
from typing import Any

from ..errors import ConfigError

MAX_VALUES = 100_000
"""Values a configuration may hold, all aliases written out."""


def load_yaml(text: str, source: str = "") -> Any:
    """The value of YAML or JSON text.

    Raises:
        ConfigError: It is no YAML, has a key twice, refers to itself, or its aliases stand for more than `MAX_VALUES`
            values; the message names the file, and line and column where they are known.
    """
    import yaml

    try:
        value = yaml.load(text, _loader())
        _count(value, source or "config", {})
        return value
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source or 'config'}, line {mark.line + 1}, column {mark.column + 1}" if mark else source or "config"
        raise ConfigError(f"not valid YAML: {getattr(error, 'problem', None) or error}", where=place) from None
    except RecursionError:
        raise ConfigError("not valid YAML: nested too deep", where=source or "config") from None
    except ValueError as error:
        raise ConfigError(f"not valid YAML: {error}", where=source or "config") from None


@functools.cache
def _loader() -> Any:
    """YAML's safe loader, which refuses a mapping with the same key twice: the first of them would be lost."""
    import yaml
    from yaml.composer import ComposerError

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            node: Any = super().compose_mapping_node(anchor)
            known = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in known:
                    raise ComposerError(None, None, f"the key {key.value!r} stands twice", key.start_mark)
                known.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else key)
            return node

    return Loader


def _count(value: Any, where: str, known: dict[int, int]) -> int:
    """How many values a value holds with all aliases written out; 0 in `known` marks those it is still inside of."""
    if not isinstance(value, dict | list):
        return 1
    if known.get(id(value)) == 0:
        raise ConfigError("an alias stands for something it is part of", where=where, allowed="no such aliases")
    if id(value) not in known:
        known[id(value)] = 0
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(v, where, known) for v in inner)
    if known[id(value)] > MAX_VALUES:
        raise ConfigError(f"its aliases stand for {known[id(value)]:,} values", where=where, allowed=f"{MAX_VALUES:,}")
    return known[id(value)]
