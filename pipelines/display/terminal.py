"""Renders a finished run as plain text: means with their counts, criteria, and the paths of the tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from ...schemas.json import Json
from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from ..run.result import EvaluationResult
from ..run.tables import Row, summary_rows
from .console import NOTHING, is_printable
from .costs import HEADINGS, NUMBERS, spent_cells
from .digest import (
    count_faults,
    count_reasons,
    locate_error,
    note_empty_columns,
)

MOST_SLICES = 24
"""Maximum slices shown of one list of columns."""
MOST_REASONS = 3
FAULTS = "Unusable rows and failed calls"
MOST_COLUMNS = 300
"""Maximum terminal columns of one fault."""
_NAME_AT_LEAST = 16

_OVER_OTHERS = ("Mn", "Me", "Cf")
"""Unicode categories of characters that take no terminal column: marks and joiners."""

Cell = str
Values = tuple[Json, ...]
"""Values of a slice's columns."""
Columns = Sequence[tuple[str, bool]]
"""(heading, True if its cells are numbers and right-aligned) of each column."""


def render(result: EvaluationResult, width: int = 100) -> str:
    """Renders the summary of a run.

    Args:
        result: A run with a manifest.
        width: Columns of the terminal. To fit, long names are cut and columns other than mean and counts dropped.
    """
    parts = ["\n".join(_head(result))]
    summary = summary_rows(result)
    if summary:
        parts.append("\n".join(_means([r for r in summary if not r["slice"]], width)))
        parts += ["\n".join(lines) for lines in _slices(summary, width)]
        parts.append("\n".join(_unscored(result, summary)))
    parts.append("\n".join(_faults(result)))
    parts.append("\n".join(_criteria(result)))
    parts.append("\n".join(_judges(result, width)))
    parts.append("\n".join(_paths(result)))
    return "\n\n".join(p for p in parts if p) + "\n"


def number(value: Json) -> str:
    """Formats a statistic with three decimals, or three significant digits if it is very small or large."""
    if value is None:
        return NOTHING
    if value == 0 or 0.001 <= abs(value) < 10_000:
        return f"{value:.3f}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e9 else f"{value:.3g}"


def share(value: Json) -> str:
    """Formats a share in [0, 1] as a percentage."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def interval(row: Row) -> str:
    """Formats the confidence interval of a mean."""
    if row["ci_low"] is None or row["ci_high"] is None:
        return NOTHING
    return f"{number(row['ci_low'])} … {number(row['ci_high'])}"


def slice_name(values: dict[str, Json]) -> str:
    """Formats a slice as column=value, ..."""
    return ", ".join(f"{k}={NOTHING if v is None else v}" for k, v in values.items())


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


def _head(result: EvaluationResult) -> Iterator[str]:
    yield f"Run {result.state}: {counts_text(result)}"
    if result.manifest.get("reason"):
        yield plain(str(result.manifest["reason"]))


def counts_text(result: EvaluationResult) -> str:
    """Formats the number of rows by outcome, and the duration of the run."""
    manifest, counts = result.manifest, result.manifest["counts"]
    parts = [f"{counts['rows']:,} rows"]
    trials = (manifest.get("config") or {}).get("trials", 1)
    if trials > 1:
        parts[0] += f" × {trials} trials"
    if counts["rejected"]:
        parts.append(f"{counts['rejected']:,} unusable")
    for status, words in (("failed", "calls failed"), ("not_called", "not called"), ("over_budget", "over budget")):
        if counts.get(status):
            parts.append(f"{counts[status]:,} {words}")
    return ", ".join([*parts, f"{manifest['measured']['seconds']:,.1f} s"])


_COLUMNS: Columns = (
    ("Metric", False),
    ("Mean", True),
    ("Scored", True),
    ("Errors", True),
    ("Skipped", True),
    ("Rows", True),
    ("CI", True),
    ("Pass rate", True),
    ("Verdict", False),
)


def _means(rows: Sequence[Row], width: int) -> list[str]:
    cells = [
        [r["metric"], number(r["mean"])]
        + [f"{r[c]:,}" for c in ("scored_count", "error_count", "skipped_count", "row_count")]
        + [interval(r), share(r["pass_rate"]), r["verdict"] or ""]
        for r in rows
    ]
    used = [
        i
        for i, (title, _) in enumerate(_COLUMNS)
        if title not in ("Pass rate", "Verdict") or any(row[i] not in ("", NOTHING) for row in cells)
    ]
    kept = [[row[i] for i in used] for row in cells]
    return table([_COLUMNS[i] for i in used], kept, width, ("CI", "Pass rate", "Verdict"))


def _slices(summary: Sequence[Row], width: int) -> Iterator[list[str]]:
    """Renders, for each list of slice columns, tables of metrics by slice, with as many slices per table as fit."""
    groups: dict[tuple[str, ...], dict[Values, dict[str, str]]] = {}
    for row in summary:
        if row["slice"]:
            cell = f"{number(row['mean'])}  {row['scored_count']:,}/{row['row_count']:,}"
            values = tuple(row["slice"].values())
            groups.setdefault(tuple(row["slice"]), {}).setdefault(values, {})[row["metric"]] = cell
    for columns, slices in groups.items():
        names = list(dict.fromkeys(metric for cells in slices.values() for metric in cells))
        first = max(map(columns_of, names))
        lines = [plain(f"By {', '.join(columns)}: mean, rows scored / rows")]
        lines += [plain(words)] if (words := note_empty_columns(columns, slices)) else []
        shown = list(slices)[:MOST_SLICES]
        while shown:
            size = _fitting(shown, slices, width - first)
            some, shown = shown[:size], shown[size:]
            rows = [[name, *(slices[values].get(name, NOTHING) for values in some)] for name in names]
            lines += table([("", False), *((_heading(values), True) for values in some)], rows, width)
        if len(slices) > MOST_SLICES:
            lines.append(f"… and {len(slices) - MOST_SLICES:,} more in the summary table")
        yield lines


def _fitting(values: Sequence[Values], slices: Mapping[Values, Mapping[str, str]], width: int) -> int:
    """Counts the slices that fit next to each other, at least one."""
    for i, one in enumerate(values):
        width -= 2 + max(map(columns_of, (_heading(one), *slices[one].values())))
        if width < 0:
            return max(1, i)
    return len(values)


def _heading(values: Values) -> str:
    return ", ".join(NOTHING if v is None else cut(plain(str(v)), 24) or '""' for v in values)


def unscored(result: EvaluationResult, summary: Sequence[Row]) -> dict[str, list[str]]:
    """Groups the metrics by the reasons (with counts) for which rows have no score."""
    metrics: dict[str, list[str]] = {}
    for name, counts in count_reasons(result, summary).items():
        shown = ", ".join(f"{code} {count:,}" for code, count in counts[:MOST_REASONS])
        more = f", {len(counts) - MOST_REASONS} more reasons" if len(counts) > MOST_REASONS else ""
        metrics.setdefault(shown + more, []).append(name)
    return metrics


def _unscored(result: EvaluationResult, summary: Sequence[Row]) -> Iterator[str]:
    found = unscored(result, summary)
    if found:
        yield "Not scored"
    for words, names in found.items():
        yield plain(f"  {words}: {', '.join(names)}")


def _faults(result: EvaluationResult) -> Iterator[str]:
    """Yields the most frequent codes of the errors table, each with its first row."""
    found = count_faults(result)
    if found:
        yield FAULTS
    for code, count, first in found[:MOST_REASONS]:
        yield cut(plain(f"  {code} {count:,}, first {locate_error(first)}: {first['message']}"), MOST_COLUMNS)
    more = len(found) - MOST_REASONS
    if more > 0:
        yield f"  … and {more:,} more {'kind' if more == 1 else 'kinds'} in the errors table"


def _criteria(result: EvaluationResult) -> Iterator[str]:
    judged = result.manifest.get("criteria") or []
    if judged:
        yield f"Criteria: {result.verdict}"
    size = max((len(j["verdict"]) for j in judged), default=0)
    for j in judged:
        yield plain(f"  {j['verdict'].ljust(size)}  {judged_name(j)}: {outcome(j)}")


def _judges(result: EvaluationResult, width: int) -> list[str]:
    cells = spent_cells(result)
    columns = [(heading, heading in NUMBERS) for heading in HEADINGS]
    return table(columns, cells, width, ("Model", "Failed", "Judge")) if cells else []


def judged_name(judged: Mapping[str, Json]) -> str:
    """Formats the metric of a criterion, with its slice."""
    return judged["metric"] + (f" [{slice_name(judged['slice'])}]" if judged["slice"] else "")


def outcome(judged: Mapping[str, Json]) -> str:
    """Formats the observed value and the bounds of a criterion; the reason if it was not met."""
    if judged["verdict"] != "PASSED":
        return judged["reason"]
    allowed = [
        f"{word} {judged[key]:g}" for key, word in (("min", "at least"), ("max", "at most")) if judged[key] is not None
    ]
    return f"{judged['statistic']} {judged['observed']:.6g}, {' and '.join(allowed)}"


def tables_of(result: EvaluationResult) -> list[tuple[str, Json]]:
    """Lists (name, description) of the run's tables: instances, summary, errors."""
    return sorted(result.manifest["tables"].items(), key=lambda t: (t[0] == "errors", t[0]))


def _paths(result: EvaluationResult) -> Iterator[str]:
    for name, described in tables_of(result):
        files = described["files"]
        count = f"{described['rows']:,} rows" + (f" in {len(files):,} files" if len(files) > 1 else "")
        where = storage.join(result.output, files[0] if len(files) == 1 else name)
        yield f"{name.ljust(11)}{where}  ({count})"
    page = RunFolder(result.output).report
    if storage.exists(page):
        yield f"{'report'.ljust(11)}{page}"
