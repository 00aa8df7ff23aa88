"""The spans of a row's trace as the page's explorer draws them: what an agent did, when, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...schemas.errors import RowError
from ...schemas.json import Json
from ...schemas.tables import MOVED
from ...schemas.values import json_or_text
from ...transforms.dialects.traces_otel.spans import Span, Trace, parse_trace

MOST_SPANS = 500
"""Spans of a row that are drawn."""
MOST_CHARACTERS = 200
"""Characters of a span's name, and of its error."""
_KEYS = ("trace", "resourceSpans", "info", "data")
"""Columns of rows with a trace: the trace itself, or the keys of one that is the row."""


def list_traced(columns: Iterable[str]) -> dict[str, str]:
    """Maps the keys of a trace to the columns that hold them; empty if the table has no traces."""
    names = list(columns)
    found = {key: name for key in _KEYS for name in (MOVED + key, key) if name in names}
    return found if "trace" in found or "resourceSpans" in found or {"info", "data"} <= found.keys() else {}


def list_spans(row: Mapping[str, Json], traced: Mapping[str, str]) -> list[dict[str, Any]] | None:
    """Lists the spans of a row's trace, each below its parent and otherwise by start; `None` without a trace.

    Args:
        row: A row of the instances table, whose texts are not cut.
        traced: Result of `list_traced`.

    Returns:
        Of each span `name`, `kind`, `level` (0: no parent), `start` and `took` in milliseconds; `error` if it failed.
    """
    found = _find_trace({key: row.get(name) for key, name in traced.items()}) if traced else None
    if found is None:
        return None
    first = min((span.start for span in found.spans if span.start), default=0)
    return [_describe(span, level, first) for span, level in _nest(found)]


def _find_trace(given: Mapping[str, Json]) -> Trace | None:
    value = given.get("trace")
    if value is None:
        value = {key: json_or_text(one) for key, one in given.items() if one is not None and key != "trace"}
    try:
        return parse_trace(value)
    except (RowError, RecursionError):
        return None


def _nest(trace: Trace) -> Iterator[tuple[Span, int]]:
    """Yields at most `MOST_SPANS` spans with their levels."""
    known = {span.span_id for span in trace.spans}
    below: dict[str | None, list[Span]] = {}
    for span in trace.spans:
        below.setdefault(span.parent_id if span.parent_id in known else None, []).append(span)
    left, shown = [(span, 0) for span in reversed(below.pop(None, []))], 0
    while left and shown < MOST_SPANS:
        span, level = left.pop()
        left += [(child, level + 1) for child in reversed(below.pop(span.span_id, []))]
        shown += 1
        yield span, level


def _describe(span: Span, level: int, first: int) -> dict[str, Any]:
    start = max(span.start - first, 0) / 1e6 if span.start else 0.0
    took = max(span.end - span.start, 0) / 1e6 if span.start and span.end else 0.0
    shown = {"name": span.name[:MOST_CHARACTERS], "kind": str(span.kind)[:40], "level": level}
    times = {"start": round(start, 3), "took": round(took, 3)}
    return {**shown, **times, **({"error": ": ".join(span.error)[:MOST_CHARACTERS]} if span.error else {})}
