"""A finished run as plain text: means with their counts beside them, criteria, and where the tables are."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from ...schemas.instance import Json
from ...transforms import storage
from ..result import EvaluationResult
from .digest import Row, reasons, summary_rows

NOTHING = "–"
"""Stands where a number is not defined."""
MOST_SLICES = 30
"""Rows shown for all slices of one list of columns."""
MOST_REASONS = 3
_NAME_AT_LEAST = 16

Cell = str
Columns = Sequence[tuple[str, bool]]
"""(heading, whether its cells are numbers, aligned to the right) of each column."""


def render(result: EvaluationResult, width: int = 100) -> str:
    """The summary of a run.

    Args:
        result: A run with a manifest.
        width: Columns of the terminal; long names are cut, columns beside the mean and its counts left out, to fit.
    """
    parts = ["\n".join(_head(result))]
    summary = summary_rows(result)
    if summary:
        parts.append("\n".join(_with_counts([r for r in summary if not r["slice"]], width)))
        parts += ["\n".join(lines) for lines in _slices(summary, width)]
        parts.append("\n".join(_unscored(result, summary)))
    parts.append("\n".join(_criteria(result)))
    parts.append("\n".join(_paths(result)))
    return "\n\n".join(p for p in parts if p) + "\n"


def number(value: Json) -> str:
    """A statistic in at most four significant places."""
    if value is None:
        return NOTHING
    if value == 0 or 0.001 <= abs(value) < 10_000:
        return f"{value:.3f}"
    return f"{value:,.0f}" if 10_000 <= abs(value) < 1e9 else f"{value:.3g}"


def share(value: Json) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def interval(row: Row) -> str:
    """The bounds of the mean's confidence interval."""
    if row["ci_low"] is None or row["ci_high"] is None:
        return NOTHING
    return f"{number(row['ci_low'])} … {number(row['ci_high'])}"


def slice_name(values: dict[str, Json]) -> str:
    """A slice as column=value."""
    return ", ".join(f"{k}={NOTHING if v is None else v}" for k, v in values.items())


def plain(text: str) -> str:
    """The text on one line, without characters that would steer a terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def columns_of(text: str) -> int:
    """Columns a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )  # fmt: skip


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, its end replaced by an ellipsis where it is longer."""
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[:-1]
    return text + "…"


def table(columns: Columns, rows: Sequence[Sequence[Cell]], width: int, droppable: Sequence[str] = ()) -> list[str]:
    """Rows under headings, aligned.

    Args:
        columns: Headings; the first column is a name, cut where the table would be too wide.
        rows: A cell for each column.
        width: Columns there are.
        droppable: Headings of columns that are left out, one after the other, where cutting names is not enough.
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
    parts.append(f"{manifest['measured']['seconds']:,.1f} s")
    yield f"Run {result.state}: " + ", ".join(parts)
    if manifest.get("reason"):
        yield plain(str(manifest["reason"]))


_COLUMNS: Columns = (
    ("Metric", False),
    ("Mean", True),
    ("CI", True),
    ("Pass rate", True),
    ("Verdict", False),
    ("Scored", True),
    ("Errors", True),
    ("Skipped", True),
    ("Rows", True),
)


def _with_counts(rows: Sequence[Row], width: int, slices: str = "") -> list[str]:
    """Summary rows as a table; with a heading for `slices`, their slices in the first column."""
    columns = ((slices, False), *_COLUMNS) if slices else _COLUMNS
    cells = [
        ([_values(r)] if slices else [])
        + [r["metric"], number(r["mean"]), interval(r), share(r["pass_rate"]), r["verdict"] or ""]
        + [f"{r[c]:,}" for c in ("scored_count", "error_count", "skipped_count", "row_count")]
        for r in rows
    ]
    used = [
        i
        for i, (title, _) in enumerate(columns)
        if title not in ("Pass rate", "Verdict") or any(row[i] not in ("", NOTHING) for row in cells)
    ]
    kept = [[row[i] for i in used] for row in cells]
    return table([columns[i] for i in used], kept, width, ("CI", "Pass rate", "Verdict"))


def _slices(summary: Sequence[Row], width: int) -> Iterator[list[str]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in summary:
        if row["slice"]:
            groups.setdefault(tuple(row["slice"]), []).append(row)
    for columns, rows in groups.items():
        shown = rows[:MOST_SLICES]
        lines = _with_counts(shown, width, "By " + ", ".join(columns))
        if len(rows) > len(shown):
            lines.append(f"… and {len(rows) - len(shown):,} more rows in the summary table")
        yield lines


def _values(row: Row) -> str:
    return ", ".join(NOTHING if v is None else cut(plain(str(v)), 40) for v in row["slice"].values())


def _unscored(result: EvaluationResult, summary: Sequence[Row]) -> Iterator[str]:
    found = reasons(result, summary)
    if found:
        yield "Not scored"
    for name, counts in found.items():
        shown = ", ".join(f"{code} {count:,}" for code, count in counts[:MOST_REASONS])
        more = f", {len(counts) - MOST_REASONS} more reasons" if len(counts) > MOST_REASONS else ""
        yield plain(f"  {name}: {shown}{more}")


def _criteria(result: EvaluationResult) -> Iterator[str]:
    judged = result.manifest.get("criteria") or []
    if judged:
        yield f"Criteria: {result.verdict}"
    size = max((len(j["verdict"]) for j in judged), default=0)
    for j in judged:
        place = f" [{slice_name(j['slice'])}]" if j["slice"] else ""
        yield plain(f"  {j['verdict'].ljust(size)}  {j['metric']}{place}: {j['reason']}")


def _paths(result: EvaluationResult) -> Iterator[str]:
    for name, described in sorted(result.manifest["tables"].items(), key=lambda t: (t[0] == "errors", t[0])):
        files = described["files"]
        count = f"{described['rows']:,} rows" + (f" in {len(files):,} files" if len(files) > 1 else "")
        where = storage.join(result.output, files[0] if len(files) == 1 else name)
        yield f"{name.ljust(11)}{where}  ({count})"
    page = storage.join(result.output, "report.html")
    if storage.exists(page):
        yield f"{'report'.ljust(11)}{page}"
