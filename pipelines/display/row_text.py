"""Renders one row of the instances table whole."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

import orjson

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ..drawing.words import NOTHING
from ..run.result import EvaluationResult
from ..run.tables import Row, find_rows, types_of_instances
from .terminal import plain, wrap_line

_ONE_LINE = 100
"""Characters of a value that stands beside its name; a longer one stands below it."""


def render_row(result: EvaluationResult, instance_id: str, width: int = 100) -> str:
    """Renders all trials of one instance: each column that has a value, JSON with one element on each line.

    Raises:
        ConfigError: The run has no such instance.
    """
    rows = list(find_rows(result, instance_id))
    if not rows:
        raise ConfigError(f"no instance {instance_id!r}", where=result.output, allowed="an instance_id of its tables")
    kinds = types_of_instances(result)
    return "\n\n".join("\n".join(_lines(row, kinds, width)) for row in rows) + "\n"


def _lines(row: Row, kinds: dict[str, str], width: int) -> Iterator[str]:
    empty = []
    for name, value in row.items():
        if value is None:
            empty.append(name)
            continue
        text = _text(value, kinds.get(name, "string"))
        if "\n" in text or len(text) > _ONE_LINE:
            yield f"{plain(name)}:"
            yield indent("\n".join(plain(line) for line in text.splitlines()), "  ")
        else:
            yield f"{plain(name)}: {plain(text) or NOTHING}"
    if empty:
        yield from wrap_line(f"without a value: {', '.join(empty)}", width)


def _text(value: Json, kind: str) -> str:
    if kind == "json" and isinstance(value, str):
        return orjson.dumps(orjson.loads(value), option=orjson.OPT_INDENT_2).decode()
    return value if isinstance(value, str) else orjson.dumps(value).decode()
