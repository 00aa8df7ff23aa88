"""Renders a finished run as plain text: the verdict, the metrics, what is worst, what failed, and where the tables are.

The text says first what a person decides by. `whole` adds what the short form leaves out: the criteria that were met,
as their intervals show, every slice and every failure group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...schemas.json import Json
from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from ..drawing.words import (
    NOTHING,
    count_parts,
    interval,
    number,
    ranges_of,
    say_decision,
    share,
    slice_name,
    state_verdict,
)
from ..run.result import EvaluationResult
from ..run.tables import Row, summary_rows
from .costs import HEADINGS, NUMBERS, spent_cells
from .digest import (
    describe_corrections,
    describe_group,
    find_examples,
    find_first_errors,
    find_groups,
    find_worst_slices,
    note_empty_columns,
)
from .terminal import (
    GROUPS,
    MOST_REASONS,
    Columns,
    columns_of,
    cut,
    judged_name,
    outcome,
    plain,
    table,
    tables_of,
    unscored,
    wrap_line,
)

MOST_WORST = 5
"""Slices shown in the short form."""
MOST_GROUPS = 5
"""Failure groups shown in the short form."""
MOST_EXAMPLES = 3
"""Instances named for each criterion that failed."""
MOST_SLICES = 24
"""Maximum slices shown of one list of columns."""
BAR_CELLS = 20
"""Columns of the bar of an interval; one stands for a twentieth of the metric's range."""

Values = tuple[Json, ...]
"""Values of a slice's columns."""


def render(result: EvaluationResult, width: int = 100, whole: bool = False) -> str:
    """Renders the summary of a run.

    Args:
        result: A run with a manifest.
        width: Columns of the terminal. To fit, long names are cut and columns other than mean and counts dropped; only
            paths and commands, which are copied, may be longer.
        whole: Show all criteria, slices and failure groups, not only those that failed or are not shown to be met, the
            worst and the largest.
    """
    summary = summary_rows(result)
    all_rows = [r for r in summary if not r["slice"]]
    parts: list[list[str]] = [[*_head(result), *_criteria(result, width, whole)]]
    if summary:
        parts.append(_means(result, all_rows, width))
        parts.append([line for text in describe_corrections(result, all_rows) for line in wrap_line(text, width)])
        parts += _slices(summary, width) if whole else [_worst(result, summary, width)]
        parts.append(list(_unscored(result, summary, width)))
    parts += [list(_groups(result, width, whole)), _judges(result, width), list(_paths(result))]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def headline(result: EvaluationResult) -> str:
    """Returns the verdict in capitals, with the number of criteria that were met; without criteria, the run's state."""
    return " ".join(part for part in state_verdict(result.manifest) if part)


def bar(low: float, mean: float, high: float, ends: tuple[float, float]) -> str:
    """Draws an interval and its mean in `BAR_CELLS` columns that stand for the range between two ends."""
    begin, end = min(ends), max(ends)

    def cell(value: float) -> int:
        return min(max(int((value - begin) / (end - begin) * BAR_CELLS), 0), BAR_CELLS - 1)

    first, at, last = cell(low), cell(mean), cell(high)
    return "".join("●" if i == at else "━" if first <= i <= last else "·" for i in range(BAR_CELLS))


def _head(result: EvaluationResult) -> Iterator[str]:
    yield " · ".join([headline(result), *count_parts(result.manifest)])
    if result.manifest.get("reason"):
        yield plain(str(result.manifest["reason"]))
    if decision := say_decision(result.manifest):
        yield plain(decision)


def _criteria(result: EvaluationResult, width: int, whole: bool) -> Iterator[str]:
    judged = result.manifest.get("criteria") or []
    shown = judged if whole else [j for j in judged if j["verdict"] != "PASSED"]
    shown = shown if whole else [*shown, *(j for j in judged if j["verdict"] == "PASSED" and j.get("shown") is False)]
    size = max((len(j["verdict"]) for j in shown), default=0)
    for j in shown:
        yield from wrap_line(f"  {j['verdict'].ljust(size)}  {judged_name(j)}: {outcome(j)}", width)
        if j["verdict"] == "FAILED" and (examples := find_examples(result, j, MOST_EXAMPLES)):
            yield from wrap_line(f"  {' ' * size}  such as {', '.join(examples)}", width)


_COLUMNS: Columns = (
    ("Metric", False),
    ("Mean", True),
    ("", False),
    ("CI", True),
    ("Scored", True),
    ("Errors", True),
    ("Pass rate", True),
    ("Verdict", False),
)
_ALWAYS = ("Metric", "Mean", "CI", "Scored")


def _means(result: EvaluationResult, rows: Sequence[Row], width: int) -> list[str]:
    ends = ranges_of(result.manifest)
    cells = [
        [
            r["metric"],
            number(r["mean"]),
            _bar_of(r, ends.get(r["metric"])),
            interval(r),
            f"{r['scored_count']:,}/{r['row_count']:,}",
            f"{r['error_count']:,}" if r["error_count"] else "",
            share(r["pass_rate"]),
            r["verdict"] or "",
        ]
        for r in rows
    ]
    used = [
        i
        for i, (title, _) in enumerate(_COLUMNS)
        if title in _ALWAYS or any(row[i] not in ("", NOTHING) for row in cells)
    ]
    kept = [[row[i] for i in used] for row in cells]
    return table([_COLUMNS[i] for i in used], kept, width, ("Pass rate", "CI", "Verdict", ""))


def _bar_of(row: Row, ends: tuple[float, float] | None) -> str:
    values = row["ci_low"], row["mean"], row["ci_high"]
    return "" if ends is None or None in values else bar(*values, ends)


def _worst(result: EvaluationResult, summary: Sequence[Row], width: int) -> list[str]:
    """Renders the slices that are shown to be worse than the rest, the surest first."""
    by_columns: dict[tuple[str, ...], list[Values]] = {}
    for row in summary:
        if row["slice"]:
            by_columns.setdefault(tuple(row["slice"]), []).append(tuple(row["slice"].values()))
    lines = [plain(words) for names, cells in by_columns.items() if (words := note_empty_columns(names, cells))]
    found = find_worst_slices(result)[:MOST_WORST]
    if found:
        cells = [
            [slice_name(r["slice"]), r["metric"], number(r["mean"]), number(r["others"]), f"{r['rows']:,}"]
            for r in found
        ]
        heads: Columns = (("Worst slices", False), ("Metric", False), ("Mean", True), ("Others", True), ("Rows", True))
        lines += table(heads, cells, width, ("Rows", "Others"))
    elif by_columns:
        lines.append("No slice is shown to be worse than the rest.")
    if by_columns:
        lines.append(f"All {sum(map(len, by_columns.values())):,} slice rows: evalbeam show {result.output} --all")
    return lines


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


def _unscored(result: EvaluationResult, summary: Sequence[Row], width: int) -> Iterator[str]:
    found = unscored(result, summary)
    if found:
        yield "Not scored"
    for words, names in found.items():
        yield from wrap_line(f"  {words}: {', '.join(names)}", width)
    for name, (instance_id, error) in find_first_errors(result, summary, MOST_REASONS).items():
        yield cut(plain(f"  {name} failed first on {instance_id}: {error}"), width)


def _groups(result: EvaluationResult, width: int, whole: bool) -> Iterator[str]:
    """Yields the largest failure groups, each with its first row, and how to see one of them whole."""
    found = find_groups(result)
    if found:
        yield GROUPS
    size = max((len(f"{row['count']:,}") for row in found), default=0)
    shown = found if whole else found[:MOST_GROUPS]
    for row in shown:
        words = f"  {row['count']:{size},}  {describe_group(row)}, first {row['examples'][0]}"
        yield cut(plain(words), width)
    if more := len(found) - len(shown):
        yield f"  … and {more:,} more: evalbeam show {result.output} --all"
    example = next((row["examples"][0] for row in found if row["kind"] != "row"), None)
    if example:
        yield f"  One row: evalbeam show {result.output} {example}"


def _judges(result: EvaluationResult, width: int) -> list[str]:
    cells = spent_cells(result)
    columns = [(heading, heading in NUMBERS) for heading in HEADINGS]
    return table(columns, cells, width, ("Model", "Failed", "Judge")) if cells else []


def _paths(result: EvaluationResult) -> Iterator[str]:
    for name, described in tables_of(result):
        files = described["files"]
        count = f"{described['rows']:,} rows" + (f" in {len(files):,} files" if len(files) > 1 else "")
        where = storage.join(result.output, files[0] if len(files) == 1 else name)
        yield f"{name.ljust(16)}{where}  ({count})"
    page = RunFolder(result.output).report
    if storage.exists(page):
        yield f"{'report'.ljust(16)}{page}"
