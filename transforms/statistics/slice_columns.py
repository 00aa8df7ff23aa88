"""Turns instances into columns of few values, by which they can be sliced."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...schemas.instance import FROM_INVOCATION, Example
from ...schemas.tables import OWN_NAMES
from ...schemas.values import slice_text
from .slices import slice_order

VALUES = 50
"""Values that a column has at most; texts of more are sliced by length, numbers by bins."""
BINS = 5
"""Bins of a column of numbers, at its quantiles."""
_LONGEST = 80
_LENGTH = "length of "
RESPONSE, TURNS, TOOLS, CALLS = "length of response", "number of turns", "tools called", "number of tool calls"
"""Columns that an answer is described by."""
_ANSWERS = OWN_NAMES | FROM_INVOCATION.keys()
"""Dataset columns of recorded answers, which say what was scored rather than where."""


class SliceColumn(NamedTuple):
    """A column of instances: the position of each instance's value among the distinct values."""

    name: str
    values: list[str | None]
    codes: np.ndarray


def describe_example(example: Example, names: Collection[str]) -> dict[str, str | float]:
    """Returns what an example can be sliced by: short texts as they are, numbers, and lengths of texts and lists.

    Of the dataset, only the columns of these names are looked at.
    """
    found: dict[str, str | float] = {}
    call = example.invocation
    for name, value in example.instance.row.items():
        if value is None or name in _ANSWERS or name not in names:
            continue
        if isinstance(value, str):
            found[name] = value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"
            found[_LENGTH + name] = len(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = value
        elif isinstance(value, list | tuple):
            found[_LENGTH + name] = len(value)
        else:
            found[name] = (slice_text(value) or "")[:_LONGEST]
    if isinstance(call.response, str):
        found[RESPONSE] = len(call.response)
    if call.turns is not None:
        found[TURNS] = len(call.turns)
    if call.predicted_trajectory is not None:
        found[TOOLS] = ", ".join(sorted({c.tool_name for c in call.predicted_trajectory}))[:_LONGEST] or "none"
        found[CALLS] = len(call.predicted_trajectory)
    return found


def slice_columns(rows: Sequence[Mapping[str, str | float]]) -> list[SliceColumn]:
    """Builds the columns with at least two values, by name, those of answers last.

    Of slices of the same rows the first column is named: that of the question says more than that of the answer.
    """
    answers = (RESPONSE, TURNS, TOOLS, CALLS)
    names = sorted({name for row in rows for name in row}, key=lambda name: (name in answers, name))
    found = {name: column for name in names if (column := _column(name, [row.get(name) for row in rows]))}
    return [column for name, column in found.items() if not _is_said(name, found, rows)]


def _is_said(name: str, found: Mapping[str, SliceColumn], rows: Sequence[Mapping[str, str | float]]) -> bool:
    """Returns true if a column holds the lengths of texts that are few, so that it says less than they do."""
    text = name.removeprefix(_LENGTH)
    return text != name and text in found and all(text in row for row in rows if name in row)


def _column(name: str, values: Sequence[str | float | None]) -> SliceColumn | None:
    distinct = set(values)
    if len(distinct) < 2:
        return None
    if len(distinct) > VALUES:
        known = [value for value in distinct if value is not None]
        if any(isinstance(value, str) for value in known):
            return None
        return _bins(name, np.array([math.nan if v is None else float(v) for v in values]))
    texts = {value: slice_text(value) for value in distinct}
    order = sorted(set(texts.values()), key=slice_order)
    places = {text: i for i, text in enumerate(order)}
    return SliceColumn(name, list(order), np.array([places[texts[value]] for value in values]))


def _bins(name: str, values: np.ndarray) -> SliceColumn | None:
    known = np.isfinite(values)
    cuts = np.quantile(values[known], [i / BINS for i in range(1, BINS)], method="inverted_cdf")
    edges = np.unique(cuts[cuts < values[known].max()])
    codes = np.where(known, np.searchsorted(edges, values, side="left"), len(edges) + 1)
    labels: list[str | None] = [*_labels(edges.tolist()), None]
    return SliceColumn(name, labels, codes) if len(edges) else None


def _labels(edges: Sequence[float]) -> Iterator[str]:
    """Yields the names of the bins: each holds the values above the edge before it, up to its own."""
    low: float | None = None
    for edge in edges:
        yield f"at most {edge:g}" if low is None else f"over {low:g}, at most {edge:g}"
        low = edge
    yield f"over {low:g}"
