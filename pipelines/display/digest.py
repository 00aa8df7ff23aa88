"""What both reports show of a finished run, read back from its tables row by row."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TextIO

import orjson

from ...schemas.instance import Json
from ...schemas.tables import PERFORMANCE, RATINGS
from ...transforms.io import storage
from ..run.result import RATES, EvaluationResult

Row = dict[str, Json]

LOOKED_AT = 100_000
"""Rows of the instances table that are searched for failing ones, and in JSONL and CSV for reasons."""


def rows_of(result: EvaluationResult, table: str, columns: Sequence[str] | None = None) -> Iterator[Row]:
    """Rows of a table in order, under our own column names, NaN as `None`; nothing where the run wrote no such table.

    Args:
        result: A finished run.
        table: "instances", "summary" or "errors".
        columns: Those wanted; default: all. JSONL and CSV give all in any case.
    """
    described = result.manifest["tables"].get(table)
    if described is None:
        return
    types = {c["name"]: c["type"] for c in described["columns"]}
    ours = {c["name"]: c.get("is", c["name"]) for c in described["columns"]}
    wanted = columns and [name for name, own in ours.items() if own in columns]
    for path in result.files(table):
        if path.endswith(".evalset_result.json"):  # ADK's results stand there instead of a table
            return
        read = _parquet if path.endswith(".parquet") else _jsonl if ".jsonl" in path else _csv
        for row in read(path, types, wanted):
            yield {own: _plain(row[name], own) for name, own in ours.items() if name in row}


def _plain(value: Json, column: str) -> Json:
    """A value as our own tables hold it: NaN as `None`, a judge's yes and no as 1 and 0."""
    if isinstance(value, str):
        return _RATED.get(value, value) if column.endswith("/score") else value
    return None if isinstance(value, float) and math.isnan(value) else value


_RATED = {word: score for score, word in RATINGS.items()}


def summary_rows(result: EvaluationResult) -> list[Row]:
    """Rows of the summary table, each `slice` as a dict."""
    return [{**row, "slice": orjson.loads(row["slice"])} for row in rows_of(result, "summary")]


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


def columns_of_instances(result: EvaluationResult) -> list[str]:
    """Columns of the instances table, under our own names."""
    return [c.get("is", c["name"]) for c in result.manifest["tables"].get("instances", {}).get("columns", ())]


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


def _parquet(path: str, types: Mapping[str, str], columns: Sequence[str] | None) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with storage.opened(path) as stream:
        file = pq.ParquetFile(stream)
        if not file.num_row_groups:  # older versions of pyarrow would read the first all the same
            return
        for batch in file.iter_batches(1024, columns=columns and list(columns), use_threads=False):
            yield from batch.to_pylist()


def _jsonl(path: str, types: Mapping[str, str], columns: Sequence[str] | None) -> Iterator[Row]:
    with _text(path) as stream:
        for line in stream:
            yield {**dict.fromkeys(types), **orjson.loads(line)}


def _csv(path: str, types: Mapping[str, str], columns: Sequence[str] | None) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    with _text(path) as stream:
        cells = csv.reader(stream)
        next(cells)  # the names there may be protected from spreadsheets
        for row in cells:
            yield {name: _cell(value, kind) for (name, kind), value in zip(types.items(), row, strict=True)}


@contextmanager
def _text(path: str) -> Iterator[TextIO]:
    with storage.opened(path) as stream:
        unpacked: Any = gzip.GzipFile(fileobj=stream) if path.endswith(".gz") else stream
        yield io.TextIOWrapper(unpacked, "utf-8", newline="")


def _cell(value: str, kind: str) -> Json:
    if value == "":
        return None
    return int(value) if kind == "int64" else float(value) if kind == "float64" else value
