"""What both reports show of a finished run, read back from its tables row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from ...schemas.json import Json
from ...schemas.tables import PERFORMANCE
from ..run.result import RATES, EvaluationResult
from ..run.tables import Row, columns_of_instances, rows_of

LOOKED_AT = 100_000
"""Rows of the instances table that are searched for failing ones, and in JSONL and CSV for reasons."""


def empty_columns(columns: Sequence[str], slices: Iterable[Sequence[Json]]) -> str:
    """What is to be said of columns that no row has a value in; "" where there are none.

    Args:
        columns: Columns of some slices.
        slices: Values of each slice, in the order of the columns.
    """
    values = zip(columns, zip(*slices, strict=True), strict=True)
    empty = [repr(column) for column, found in values if not any(value is not None for value in found)]
    return f"No row has a value in the column {' or '.join(empty)}." if empty else ""


def reasons(result: EvaluationResult, summary: Sequence[Row]) -> dict[str, list[tuple[str, int]]]:
    """For each metric that did not score every row, how often each code stands in its error column, most often first.

    Of JSONL and CSV tables, the first `LOOKED_AT` rows are looked at.
    """
    known = set(columns_of_instances(result))
    short = [r["metric"] for r in summary if not r["slice"] and r["error_count"] + r["skipped_count"]]
    own = (name.rpartition("/")[0] if name.endswith(RATES) else name for name in short)
    columns = {f"{name}/error": name for name in (*short, *own) if f"{name}/error" in known}
    counts: dict[str, Counter[str]] = {name: Counter() for name in columns.values()}
    rows = rows_of(result, "instances", list(columns)) if columns else iter(())
    parquet = all(path.endswith(".parquet") for path in result.files("instances"))
    for row in rows if parquet else islice(rows, LOOKED_AT):
        for column, name in columns.items():
            if row[column]:
                counts[name][row[column].partition(":")[0]] += 1
    return {name: sorted(c.items(), key=lambda e: (-e[1], e[0])) for name, c in counts.items() if c}


def failing(result: EvaluationResult, summary: Sequence[Row], most: int) -> list[tuple[Row, list[str]]]:
    """The first rows of the instances table on which something failed, and what.

    That is a failed call, a metric's error, or a score that misses its criterion's bound; in a run without such
    criteria, a score at the worst end of the metric's range. Of the first `LOOKED_AT` rows.
    """
    metrics = _metrics(result)
    whole = {r["metric"]: r for r in summary if not r["slice"]}
    bounded = any(whole.get(name, {}).get("threshold") is not None for name in metrics)
    tests = {name: _worse(whole.get(name, {}), ends, bounded) for name, ends in metrics.items()}
    found: list[tuple[Row, list[str]]] = []
    if not any(_may_fail(row, tests.get(name)) for name, row in whole.items() if name not in PERFORMANCE):
        return found
    for row in islice(rows_of(result, "instances"), LOOKED_AT):
        why = _faults(row, tests)
        if why:
            found.append((row, why))
            if len(found) == most:
                break
    return found


def _may_fail(row: Row, worse: Callable[[float], bool] | None) -> bool:
    """Whether an instance may have failed, as far as a metric's summary tells; win rates have no scores to look at."""
    if row["error_count"] or row["skipped_count"]:
        return True
    return worse is not None and (row["min"] is None or worse(row["min"]) or worse(row["max"]))


def _faults(row: Row, tests: Mapping[str, Callable[[float], bool]]) -> list[str]:
    why = [f"call: {row['error_type'] or row['status']}"] if row["status"] != "ok" else []
    for name, worse in tests.items():
        if row.get(f"{name}/status") == "error":
            why.append(f"{name}: {row[f'{name}/error']}")
        elif (score := row.get(f"{name}/score")) is not None and worse(score):
            why.append(f"{name}: {score:g}")
    return why


def faults(result: EvaluationResult) -> list[tuple[str, int, Row]]:
    """(code, how often, first row) of what stands in the errors table, the most frequent first.

    Of the first `LOOKED_AT` rows.
    """
    counts: Counter[str] = Counter()
    first: dict[str, Row] = {}
    for row in islice(rows_of(result, "errors"), LOOKED_AT):
        counts[row["code"]] += 1
        first.setdefault(row["code"], row)
    return [(code, count, first[code]) for code, count in counts.most_common()]


def place_of(error: Row) -> str:
    """Where a row of the errors table comes from: a place in a file, or an instance and its trial."""
    if error["source"] == "row":
        return f"{error['file']}, line {error['line']}" if error["line"] else str(error["file"])
    return f"{error['instance_id']}" + (f", trial {error['trial']}" if error["trial"] else "")


def _metrics(result: EvaluationResult) -> dict[str, tuple[float, float] | None]:
    """The metrics with columns of their own and their (worst, best) scores, where they have a range."""
    said = {m["name"]: m for m in result.manifest.get("metrics", ())}
    names = [c.removesuffix("/score") for c in columns_of_instances(result) if c.endswith("/score")]
    ends = {name: (m["worst"], m["best"]) for name, m in said.items() if m["worst"] is not None}
    return {name: ends.get(name) for name in names if name not in PERFORMANCE}


def _worse(row: Row, ends: tuple[float, float] | None, bounded: bool) -> Callable[[float], bool]:
    """Whether a score fails: by its threshold, or, where no metric has one, by being the worst possible."""
    threshold = row.get("threshold")
    if threshold is not None:
        falling = ends is not None and ends[1] < ends[0]
        return (lambda score: score > threshold) if falling else (lambda score: score < threshold)
    return lambda score: not bounded and ends is not None and score == ends[0]
