"""Digests of a finished run for both reports, read back from its tables row by row."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson

from ...schemas.json import Json
from ...schemas.names import RATES
from ...schemas.run_folder import FAILURES, SLICES
from ...schemas.tables import PERFORMANCE
from ...schemas.values import slice_text
from ..drawing.words import count, interval, number, ranges_of
from ..run.result import EvaluationResult
from ..run.tables import Columns, Row, columns_of_instances, count_texts, rows_of

LOOKED_AT = 100_000
"""Maximum rows of the instances table searched for examples and, in JSONL and CSV, for reasons."""

_OF_SCORES = ("mean", "median", "min", "max", "ci_low", "ci_high")
"""Statistics whose bounds are on the scale of the scores."""


def note_empty_columns(columns: Sequence[str], slices: Iterable[Sequence[Json]]) -> str:
    """Returns a note on the columns in which no row has a value; "" if there are none.

    Args:
        columns: Columns of some slices.
        slices: Values of each slice, in the order of the columns.
    """
    values = zip(columns, zip(*slices, strict=True), strict=True)
    empty = [repr(column) for column, cells in values if all(cell is None for cell in cells)]
    return f"No row has a value in the column {' or '.join(empty)}." if empty else ""


def count_reasons(result: EvaluationResult, summary: Sequence[Row]) -> dict[str, list[tuple[str, int]]]:
    """Counts the codes in the error column of each metric that did not score every row, most frequent first.

    In JSONL and CSV tables only the first `LOOKED_AT` rows are counted.
    """
    known = set(columns_of_instances(result))
    short = [r["metric"] for r in summary if not r["slice"] and r["error_count"] + r["skipped_count"]]
    own = (name.rpartition("/")[0] if name.endswith(RATES) else name for name in short)
    columns = {f"{name}/error": name for name in (*short, *own) if f"{name}/error" in known}
    counts: dict[str, Counter[str]] = {name: Counter() for name in columns.values()}
    for column, texts in count_texts(result, "instances", list(columns), LOOKED_AT).items():
        for text, times in texts.items():
            counts[columns[column]][text.partition(":")[0]] += times
    return {name: sorted(c.items(), key=lambda e: (-e[1], e[0])) for name, c in counts.items() if c}


ScoreTest = tuple[Callable[[Any], Any], str]
"""(function that tells of a score, or of each of an array of scores, whether it fails; in words)."""


class Fault(NamedTuple):
    """A reason why a row failed: the group of alike failures that it belongs to, and what happened."""

    group: str
    text: str


def make_fault_finder(result: EvaluationResult, summary: Sequence[Row]) -> Callable[[Row], list[Fault]]:
    """Returns a function that lists the faults of a row of the instances table.

    A fault is a failed call, a metric's error, or a score that misses its criterion's bound; in a run without such
    criteria, a score at the worst end of the metric's range.
    """
    tests = make_score_tests(result, summary)
    return lambda row: list_faults({name: [value] for name, value in row.items()}, tests).get(0, [])


def make_score_tests(result: EvaluationResult, summary: Sequence[Row]) -> dict[str, ScoreTest]:
    """Maps each metric with columns of its own to the test of its failing scores."""
    metrics = _list_metrics(result)
    whole = {r["metric"]: r for r in summary if not r["slice"]}
    bounded = any(whole.get(name, {}).get("threshold") is not None for name in metrics)
    return {name: _make_test(whole.get(name, {}), ends, bounded) for name, ends in metrics.items()}


def list_faults(rows: Columns, tests: Mapping[str, ScoreTest]) -> dict[int, list[Fault]]:
    """Lists the faults of rows of the instances table, by their place, as `make_fault_finder` says.

    Args:
        rows: The rows, by column.
        tests: Result of `make_score_tests`.
    """
    found: defaultdict[int, list[Fault]] = defaultdict(list)
    for i, status in enumerate(rows["status"]):
        if status != "ok":
            kind = rows["error_type"][i] or status
            found[i].append(Fault(f"call: {kind}", f"call: {kind}"))
    for name, (is_worse, words) in tests.items():
        failed = set()
        if "error" in (statuses := rows.get(f"{name}/status", ())):
            failed = {i for i, status in enumerate(statuses) if status == "error"}
            for i in failed:
                error = rows[f"{name}/error"][i] or ""
                found[i].append(Fault(f"{name}: {error.partition(':')[0]}", f"{name}: {error}"))
        scores = rows.get(f"{name}/score", ())
        worse = {score for score in set(scores) if score is not None and is_worse(score)}
        faults = {score: Fault(f"{name}{words}", f"{name}: {score:g}") for score in worse}
        for i, score in enumerate(scores) if worse else ():
            if score in worse and i not in failed:
                found[i].append(faults[score])
    return found


def find_worst_slices(result: EvaluationResult) -> list[Row]:
    """Lists the slices that are shown to be worse than the rest, the surest first, each with its surest metric."""
    found: dict[str, Row] = {}
    for row in rows_of(result, SLICES):
        found.setdefault(row["slice"], {**row, "slice": orjson.loads(row["slice"])})
    return list(found.values())


def find_examples(result: EvaluationResult, judged: Mapping[str, Json], most: int) -> list[str]:
    """Finds instances that speak against a criterion: whose score is beyond its bound, or whose call failed.

    Only the first `LOOKED_AT` rows of the instances table are searched.

    Args:
        result: A run.
        judged: A criterion, as the manifest has it.
        most: Maximum number of ids.
    """
    name, low, high = judged["metric"], judged["min"], judged["max"]
    score = f"{name}/score"
    if judged["statistic"] not in _OF_SCORES or (name != "failure" and score not in columns_of_instances(result)):
        return []
    found: dict[str, None] = {}
    for row in islice(rows_of(result, "instances", ["instance_id", "status", score, *judged["slice"]]), LOOKED_AT):
        if any(slice_text(row.get(column)) != value for column, value in judged["slice"].items()):
            continue
        value = float(row["status"] != "ok") if name == "failure" else row[score]
        if value is not None and ((low is not None and value < low) or (high is not None and value > high)):
            found.setdefault(row["instance_id"])
            if len(found) == most:
                break
    return list(found)


def find_first_errors(result: EvaluationResult, summary: Sequence[Row], most: int) -> dict[str, tuple[str, str]]:
    """Maps metrics that failed on rows to the first such row's id and error, at most `most` metrics.

    Only the first `LOOKED_AT` rows of the instances table are searched.
    """
    known = set(columns_of_instances(result))
    names = [r["metric"] for r in summary if not r["slice"] and r["error_count"] and f"{r['metric']}/error" in known]
    missing = set(names[:most])
    columns = [column for name in missing for column in (f"{name}/status", f"{name}/error")]
    found: dict[str, tuple[str, str]] = {}
    for row in islice(rows_of(result, "instances", ["instance_id", *columns]), LOOKED_AT) if missing else ():
        for name in [name for name in missing if row[f"{name}/status"] == "error"]:
            found[name] = row["instance_id"], row[f"{name}/error"]
            missing.remove(name)
        if not missing:
            break
    return {name: found[name] for name in names if name in found}


def find_groups(result: EvaluationResult) -> list[Row]:
    """Lists the failure groups of a run, the largest first; `examples` as a list."""
    return [{**row, "examples": orjson.loads(row["examples"])} for row in rows_of(result, FAILURES)]


def describe_group(row: Row) -> str:
    """Says in words what the rows of a failure group have in common."""
    kind, metric, code, message = (row[name] for name in ("kind", "metric", "code", "message"))
    words = {"trajectory": f"{str(code).replace('_', ' ')} {message}", "score": message}
    return f"{metric}: " * (metric is not None) + words.get(kind, f"{code}: {message}")


def locate_error(error: Row) -> str:
    """Formats the origin of a row of the errors table: file and line, or instance and trial."""
    if error["source"] == "row":
        return f"{error['file']}, line {error['line']}" if error["line"] else str(error["file"])
    return f"{error['instance_id']}" + (f", trial {error['trial']}" if error["trial"] else "")


def _list_metrics(result: EvaluationResult) -> dict[str, tuple[float, float] | None]:
    """Maps each metric with columns of its own to its (worst, best) scores, or `None` without a range."""
    names = [c.removesuffix("/score") for c in columns_of_instances(result) if c.endswith("/score")]
    ends = ranges_of(result.manifest)
    return {name: ends.get(name) for name in names if name not in PERFORMANCE}


def _make_test(row: Row, ends: tuple[float, float] | None, bounded: bool) -> ScoreTest:
    """Returns the test of a failing score, in words too: beyond its threshold; if no metric has one, the worst."""
    threshold = row.get("threshold")
    if threshold is None:
        worst = math.nan if bounded or ends is None else ends[0]  # which no score equals
        return lambda score: score == worst, " is at its worst"
    if ends is not None and ends[1] < ends[0]:
        return lambda score: score > threshold, f" is above {threshold:g}"
    return lambda score: score < threshold, f" is below {threshold:g}"


def describe_corrections(result: EvaluationResult, whole: Sequence[Row]) -> Iterator[str]:
    """Yields what people's labels make of the means over all rows, or why nothing, and how many labels have no row.

    Args:
        result: A run.
        whole: The summary rows of the whole dataset.
    """
    if not result.manifest["config"].get("labels"):
        return
    reasons = {row["metric"]: row["reason"] or "" for row in rows_of(result, "validity") if row["slice"] == "{}"}
    for row in whole:
        name, labels = row["metric"], row.get("labels")
        if labels is None:
            continue
        if row["corrected_mean"] is None:
            why = [part for part in reasons.get(name, "").split("; ") if part.startswith("corrected_mean: ")]
            yield f"Not corrected by labels: {name}, {''.join(why).removeprefix('corrected_mean: ')}"
            continue
        mean, ends = number(row["corrected_mean"]), interval(row, "corrected_")
        yield f"Corrected by labels: {name} {mean} ({ends}), {count(labels, 'label')}"
    apart = [row for row in rows_of(result, "errors", ["source", "file", "line"]) if row["source"] == "label"]
    if apart:
        yield f"{count(len(apart), 'label')} without a row in the run, first {apart[0]['file']}:{apart[0]['line']}"
