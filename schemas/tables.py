"""The tables evalbeam writes: the only place where output columns are named and typed (metrics.md §9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import orjson
import pyarrow as pa

from .conversation import turn_out
from .instance import Chunk, Example, Invocation, Json, Trajectory
from .names import PERFORMANCE
from .result import Rejected, ScoreColumn, ScoredBatch, Summary

TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.string(),
    "json": pa.string(),
}
MESSAGE_BYTES = 32 << 20
"""Bytes of text in one encoded record batch, about."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an output table.

    Attributes:
        name: Its name.
        type: "bool", "int64", "float64", "string", "timestamp" (ISO 8601 text) or "json" (JSON text).
        volatile: Whether it was measured, so that two live runs may differ in it.
        standard: Our own name for it, where `output.names` chooses another; else "".
    """

    name: str
    type: str
    volatile: bool = False
    standard: str = ""

    def field(self) -> pa.Field:
        """The column in an Arrow schema; "evalbeam.type" and "evalbeam.volatile" are in its metadata."""
        metadata = {"evalbeam.type": self.type, **({"evalbeam.volatile": "true"} if self.volatile else {})}
        return pa.field(self.name, TYPES[self.type], metadata=metadata)


@dataclass(frozen=True, slots=True)
class MetricColumns:
    """What a metric's columns depend on.

    Attributes:
        name: Its output name.
        outputs: Which of the optional columns it fills.
        titles: Names of columns by part (score, explanation ...), where they are not ours.
        rating: Whether the scores 1 and 0 are written as yes and no.
        measured: Whether its scores are measured, so that two live runs may differ in them.
    """

    name: str
    outputs: tuple[str, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    rating: bool = False
    measured: bool = False

    def column(self, part: str, type_: str) -> Column:
        """The column of one part."""
        standard = f"{self.name}/{part}"
        title = self.titles.get(part, standard)
        volatile = self.measured and part in ("score", "details")
        return Column(title, type_, volatile, standard="" if title == standard else standard)

    def columns(self) -> list[Column]:
        """All its columns, in order."""
        parts = {"score": "string" if self.rating else "float64"}
        optional = {"explanation": "string", "pairwise_choice": "string", "confidence": "float64", "details": "json"}
        parts |= {part: type_ for part, type_ in optional.items() if part in self.outputs}
        return [self.column(part, type_) for part, type_ in {**parts, "status": "string", "error": "string"}.items()]


def schema(columns: Iterable[Column]) -> pa.Schema:
    """The columns as an Arrow schema."""
    return pa.schema([c.field() for c in columns])


_IDENTITY = (Column("instance_id", "string"), Column("trial", "int64"))
_INVOCATION = (
    Column("status", "string"),
    Column("response", "string"),
    Column("predicted_trajectory", "json"),
    Column("retrieved_context", "json"),
    Column("turns", "json"),
    Column("latency_in_seconds", "float64", volatile=True),
    Column("failure", "int64"),
    Column("error_type", "string"),
    Column("error_message", "string", volatile=True),
    Column("attempts", "int64", volatile=True),
    Column("input_tokens", "int64"),
    Column("output_tokens", "int64"),
)
OWN_NAMES = frozenset(c.name for c in _IDENTITY + _INVOCATION)
"""Names of our columns; a dataset column with one of them is kept as `dataset.<name>`."""

ERRORS = (
    Column("source", "string"),
    Column("file", "string"),
    Column("line", "int64"),
    Column("instance_id", "string"),
    Column("trial", "int64"),
    Column("code", "string"),
    Column("message", "string", volatile=True),
    Column("raw", "string"),
)
"""Errors table: source is "row" (a rejected input row, with file and line; none where rows have no order) or "call" (a
failed call, with its ids)."""

_SUMMARY_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("slice", "judges"), "json"),
    **dict.fromkeys(("metric", "ci_method", "verdict"), "string"),
    **dict.fromkeys(("row_count", "scored_count", "error_count", "skipped_count"), "int64"),
    **dict.fromkeys(("judge_calls", "judge_input_tokens", "judge_output_tokens"), "int64"),
}
SUMMARY = tuple(Column(f.name, _SUMMARY_TYPES.get(f.name, "float64")) for f in fields(Summary))


def dataset_column(name: str, metrics: Sequence[MetricColumns]) -> str:
    """Name of a dataset column in the instances table."""
    taken = name in OWN_NAMES or name.startswith("dataset.")
    taken |= any(name.startswith(f"{m.name}/") or name in m.titles.values() for m in metrics)
    return f"dataset.{name}" if taken else name


def instance_columns(dataset: Sequence[tuple[str, str]], metrics: Sequence[MetricColumns]) -> tuple[Column, ...]:
    """Columns of the instances table, in order."""
    own = [Column(dataset_column(name, metrics), type_) for name, type_ in dataset]
    titles = {m.name: m.titles["score"] for m in metrics if m.name in PERFORMANCE and "score" in m.titles}
    measured = [replace(c, name=titles[c.name], standard=c.name) if c.name in titles else c for c in _INVOCATION]
    return (*_IDENTITY, *own, *measured, *(c for m in metrics if m.name not in PERFORMANCE for c in m.columns()))


def json_text(value: Json) -> str:
    """A value as JSON text."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def text(value: Json) -> str | None:
    """A value for a text column: a string as it is, another value as JSON text."""
    return value if value is None or isinstance(value, str) else json_text(value)


def instance_records(batch: ScoredBatch, metrics: Sequence[MetricColumns]) -> Iterator[pa.RecordBatch]:
    """The rows of the instances table that a batch becomes, as record batches of about `MESSAGE_BYTES` at most."""
    target = schema(instance_columns(batch.columns, metrics))
    for low, high in _spans([len(text(e.invocation.response) or "") for e in batch.examples]):
        yield pa.record_batch(list(_arrays(batch, low, high, metrics)), schema=target)


def _spans(sizes: list[int]) -> Iterator[tuple[int, int]]:
    low, size = 0, 0
    for i, width in enumerate(sizes):
        if i > low and size + width > MESSAGE_BYTES:
            yield low, i
            low, size = i, 0
        size += width
    if low < len(sizes):
        yield low, len(sizes)


def _arrays(batch: ScoredBatch, low: int, high: int, metrics: Sequence[MetricColumns]) -> Iterator[pa.Array]:
    examples = batch.examples[low:high]
    yield pa.array([e.instance.instance_id for e in examples], pa.string())
    yield pa.array([e.trial for e in examples], pa.int64())
    rows = [e.instance.row for e in examples]
    for name, type_ in batch.columns:
        yield dataset_array([row.get(name) for row in rows], type_)
    known = [m.name for m in metrics if not m.measured]
    yield from _invocation_arrays([e.invocation for e in examples], _turns(batch, low, high, known))
    for metric in metrics:
        if metric.name not in PERFORMANCE:
            yield from _score_arrays(batch.scores[metric.name], low, high, metric)


def dataset_array(values: list[Json], type_: str) -> pa.Array:
    """Values of one dataset column as its Arrow array."""
    if type_ == "json":
        dumps = orjson.dumps
        return pa.array([None if v is None else dumps(v).decode() for v in values], pa.string())
    if type_ == "float64":
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array(values, TYPES[type_])


def _invocation_arrays(calls: list[Invocation], turns: pa.Array) -> Iterator[pa.Array]:
    usages = [c.usage for c in calls]
    yield pa.array([c.status for c in calls], pa.string())
    yield pa.array([text(c.response) for c in calls], pa.string())
    yield pa.array([_trajectory_text(c.predicted_trajectory) for c in calls], pa.string())
    yield pa.array([_context_text(c.retrieved_context) for c in calls], pa.string())
    yield turns
    yield pa.array([c.latency_in_seconds for c in calls], pa.float64())
    yield pa.array([_FAILURE.get(c.status) for c in calls], pa.int64())
    yield pa.array([c.error_type for c in calls], pa.string())
    yield pa.array([c.error_message for c in calls], pa.string())
    yield pa.array([c.attempts for c in calls], pa.int64())
    yield pa.array([u and u.input_tokens for u in usages], pa.int64())
    yield pa.array([u and u.output_tokens for u in usages], pa.int64())


_FAILURE = {"ok": 0, "failed": 1}


def _trajectory_text(calls: Trajectory | None) -> str | None:
    return None if calls is None else json_text([{"tool_name": c.tool_name, "tool_input": c.tool_input} for c in calls])


def _context_text(chunks: tuple[Chunk, ...] | None) -> str | None:
    return None if chunks is None else json_text([{"content": c.content, "doc_uri": c.doc_uri} for c in chunks])


def _turns(batch: ScoredBatch, low: int, high: int, names: Sequence[str]) -> pa.Array:
    """The turns of conversations, each with its `scores`: what these metrics' details say under "turns".

    What was measured is left out, so that the column is the same in every run.
    """
    if all(e.invocation.turns is None for e in batch.examples[low:high]):
        return pa.nulls(high - low, pa.string())
    return pa.array([_turns_text(batch, i, names) for i in range(low, high)], pa.string())


def _turns_text(batch: ScoredBatch, i: int, names: Sequence[str]) -> str | None:
    turns = batch.examples[i].invocation.turns
    if turns is None:
        return None
    shown = [turn_out(replace(t, latency_in_seconds=None)) for t in turns]
    for name in names:
        details = batch.scores[name].details.get(i) if name in batch.scores else None
        scores = details.get("turns") if isinstance(details, dict) else None
        for turn, score in zip(shown, scores or (), strict=False):
            turn.setdefault("scores", {})[name] = score
    return json_text(shown)


RATINGS: Mapping[float | None, str] = {1.0: "yes", 0.0: "no"}
"""How the scores of a judge that says yes or no are written where `output.names` asks for it."""


def _score_arrays(column: ScoreColumn, low: int, high: int, metric: MetricColumns) -> Iterator[pa.Array]:
    size = high - low

    def sparse(values: dict[int, Any], type_: pa.DataType, show: Callable[[Any], Any] = lambda v: v) -> pa.Array:
        if not values:
            return pa.nulls(size, type_)
        return pa.array([show(values[i]) if i in values else None for i in range(low, high)], type_)

    values = column.values[low:high]
    yield pa.array([RATINGS.get(v) for v in values], pa.string()) if metric.rating else pa.array(values, pa.float64())
    if "explanation" in metric.outputs:
        yield sparse(column.explanations, pa.string())
    if "pairwise_choice" in metric.outputs:
        yield sparse(column.labels, pa.string())
    if "confidence" in metric.outputs:
        yield sparse(column.confidences, pa.float64())
    if "details" in metric.outputs:
        yield sparse(column.details, pa.string(), json_text)
    if column.status:
        yield pa.array([column.status.get(i, "scored") for i in range(low, high)], pa.string())
    else:
        yield pa.repeat(pa.scalar("scored"), size)
    yield sparse(column.errors, pa.string(), lambda e: f"{e.code}: {e.message}")


def failed_call(example: Example) -> dict[str, Json] | None:
    """The errors-table row of an example whose call failed, or `None`."""
    call = example.invocation
    if call.status != "failed":
        return None
    return {
        "source": "call",
        "instance_id": example.instance.instance_id,
        "trial": example.trial,
        "code": call.error_type,
        "message": call.error_message,
    }


def rejected_row(rejected: Rejected, line: int) -> dict[str, Json]:
    """The errors-table row of a rejected input row, `line` counted from the start of its file."""
    return {
        "source": "row",
        "file": rejected.file,
        "line": line,
        "code": rejected.code,
        "message": rejected.message,
        "raw": rejected.raw,
    }


def error_order(row: dict[str, Json]) -> tuple[Any, ...]:
    """Sort key of the errors table: rejected rows by place, then failed calls by instance and trial."""
    place = (row.get("file") or "", row.get("line") or 0, row.get("instance_id") or "", row.get("trial") or 0)
    what = (row.get("code") or "", row.get("raw") or "", row.get("message") or "")
    return (row["source"] != "row", *place, *what)


def summary_row(summary: Summary) -> dict[str, Json]:
    """A summary as a row of the summary table; `slice` is a JSON object, {} for the whole dataset."""
    row = {f.name: getattr(summary, f.name) for f in fields(Summary)}
    row["slice"] = json_text(dict(summary.slice))
    row["judges"] = None if summary.judges is None else json_text(summary.judges)
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def table(rows: Sequence[dict[str, Json]], columns: Sequence[Column]) -> pa.RecordBatch:
    """Plain rows as a record batch of the columns' schema."""
    target = schema(columns)
    return pa.record_batch([pa.array([r.get(f.name) for r in rows], f.type) for f in target], schema=target)
