"""Formats numbers, names and tables of a finished run as plain text for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from textwrap import wrap

from ...schemas.json import Json
from ...schemas.run_folder import ERRORS, FAILURES, INSTANCES, SLICES, SUMMARY
from ...schemas.verdict_words import TOO_SMALL, say_interval
from ..drawing.words import count_parts, slice_name
from ..run.result import EvaluationResult
from ..run.tables import Row
from .console import is_printable
from .digest import count_reasons

MOST_REASONS = 3
FAULTS = "Unusable rows and failed calls"
GROUPS = "Failure groups"
_NAME_AT_LEAST = 16

_OVER_OTHERS = ("Mn", "Me", "Cf")
"""Unicode categories of characters that take no terminal column: marks and joiners."""

_ORDER = {name: i for i, name in enumerate((INSTANCES, SUMMARY, FAILURES, SLICES, ERRORS))}

Cell = str
Columns = Sequence[tuple[str, bool]]
"""(heading, True if its cells are numbers and right-aligned) of each column."""


def plain(text: str) -> str:
    """Returns the text on one line, with control characters replaced."""
    return "".join(c if is_printable(c) else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def columns_of(text: str) -> int:
    """Returns the number of terminal columns that a text takes."""
    return sum(
        0 if unicodedata.category(c) in _OVER_OTHERS else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, width: int) -> str:
    """Shortens a text to at most `width` columns, with an ellipsis at its end."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[:-1]
    return text + "…"


def wrap_line(text: str, width: int) -> list[str]:
    """Breaks a line that is too long at its spaces; what follows is indented."""
    return wrap(plain(text), width, subsequent_indent=" " * 6, break_on_hyphens=False)


def table(columns: Columns, rows: Sequence[Sequence[Cell]], width: int, droppable: Sequence[str] = ()) -> list[str]:
    """Renders rows under headings, aligned.

    Args:
        columns: Headings; the first column holds names, which are cut if the table would be too wide.
        rows: One cell for each column.
        width: Available terminal columns.
        droppable: Headings of columns to drop, in this order, if cutting names is not enough.
    """
    kept = list(range(len(columns)))
    cells = [[h for h, _ in columns], *([plain(c) for c in row] for row in rows)]
    sizes = [max(columns_of(row[i]) for row in cells) for i in range(len(columns))]
    for heading in droppable:
        others = sum(sizes[i] for i in kept[1:]) + 2 * (len(kept) - 1)
        if min(sizes[0], _NAME_AT_LEAST) + others <= width:
            break
        kept = [i for i in kept if columns[i][0] != heading]
    others = sum(sizes[i] for i in kept[1:]) + 2 * (len(kept) - 1)
    sizes[0] = min(sizes[0], max(_NAME_AT_LEAST, width - others))
    return ["  ".join(_padded(row[i], sizes[i], columns[i][1]) for i in kept).rstrip() for row in cells]


def _padded(text: str, width: int, right: bool) -> str:
    text = cut(text, width)
    fill = " " * (width - columns_of(text))
    return fill + text if right else text + fill


def counts_text(result: EvaluationResult) -> str:
    """Formats the number of rows by outcome, and the duration of the run, separated by commas."""
    return ", ".join(count_parts(result.manifest))


def unscored(result: EvaluationResult, summary: Sequence[Row]) -> dict[str, list[str]]:
    """Groups the metrics by the reasons (with counts) for which rows have no score."""
    metrics: dict[str, list[str]] = {}
    for name, counts in count_reasons(result, summary).items():
        shown = ", ".join(f"{code} {count:,}" for code, count in counts[:MOST_REASONS])
        more = f", {len(counts) - MOST_REASONS} more reasons" if len(counts) > MOST_REASONS else ""
        metrics.setdefault(shown + more, []).append(name)
    return metrics


def judged_name(judged: Mapping[str, Json]) -> str:
    """Formats the metric of a criterion, with its slice."""
    return judged["metric"] + (f" [{slice_name(judged['slice'])}]" if judged["slice"] else "")


def outcome(judged: Mapping[str, Json]) -> str:
    """Formats the observed value and the bounds of a criterion; the reason if it was not met.

    The interval stands with them if it decided, or if it does not bear out what the statistic decided.
    """
    if judged["verdict"] != "PASSED":
        return judged["reason"]
    allowed = [
        f"{word} {judged[key]:g}" for key, word in (("min", "at least"), ("max", "at most")) if judged[key] is not None
    ]
    text = f"{judged['statistic']} {judged['observed']:.6g}, {' and '.join(allowed)}"
    if judged.get("decided_by") != "interval" and judged.get("shown") is not False:
        return text
    found = say_interval(judged["low"], judged["high"], judged["confidence"])
    return f"{text}; {found}" + (f": {TOO_SMALL}" if judged["shown"] is False else "")


def tables_of(result: EvaluationResult) -> list[tuple[str, Json]]:
    """Lists (name, description) of the run's tables: instances, summary, those of what stands out, errors."""
    return sorted(result.manifest["tables"].items(), key=lambda t: (_ORDER.get(t[0], len(_ORDER)), t[0]))
