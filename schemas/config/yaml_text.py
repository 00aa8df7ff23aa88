"""Parses YAML and JSON text; rejects duplicate keys and aliases that expand without bound."""

from __future__ import annotations

import functools
from typing import Any

from ..errors import ConfigError

MAX_VALUES = 100_000
"""Maximum number of values of a configuration, aliases expanded: stops a "billion laughs" file."""


def load_yaml(text: str, source: str = "") -> Any:
    """Parses YAML or JSON text.

    Raises:
        ConfigError: The text is not valid YAML, has a duplicate key, refers to itself, or its aliases expand to more
            than `MAX_VALUES` values; the message names the file, and line and column if they are known.
    """
    import yaml

    try:
        value = yaml.load(text, _loader())
        _count(value, source or "config", {})
        return value
    except ConfigError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source or 'config'}, line {mark.line + 1}, column {mark.column + 1}" if mark else source or "config"
        raise ConfigError(f"not valid YAML: {getattr(error, 'problem', None) or error}", where=place) from None
    except RecursionError:
        raise ConfigError("not valid YAML: nested too deeply", where=source or "config") from None
    except ValueError as error:
        raise ConfigError(f"not valid YAML: {error}", where=source or "config") from None


@functools.cache
def _loader() -> Any:
    """Returns a safe loader that rejects duplicate keys; PyYAML would silently keep the last one."""
    import yaml
    from yaml.composer import ComposerError

    class Loader(yaml.SafeLoader):
        def compose_mapping_node(self, anchor: Any) -> Any:
            node: Any = super().compose_mapping_node(anchor)
            known = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in known:
                    raise ComposerError(None, None, f"duplicate key {key.value!r}", key.start_mark)
                known.add((key.tag, key.value) if isinstance(key, yaml.ScalarNode) else key)
            return node

    return Loader


def _count(value: Any, where: str, known: dict[int, int]) -> int:
    """Counts the values within a value, aliases expanded.

    Args:
        value: The value.
        where: Name of the file, for the error.
        known: Counts by object id; 0 marks objects that are still being counted, so meeting one again is a cycle.
    """
    if not isinstance(value, dict | list):
        return 1
    if known.get(id(value)) == 0:
        raise ConfigError("an alias refers to a value that contains it", where=where, allowed="no recursive aliases")
    if id(value) not in known:
        known[id(value)] = 0
        inner = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(v, where, known) for v in inner)
    if known[id(value)] > MAX_VALUES:
        raise ConfigError(
            f"aliases expand to {known[id(value)]:,} values", where=where, allowed=f"at most {MAX_VALUES:,}"
        )
    return known[id(value)]
