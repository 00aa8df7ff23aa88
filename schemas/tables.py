"""The tables that evalbeam writes; output columns are named and typed only here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from .comparison import Difference
from .conversation import turn_out
from .instance import Chunk, Example, Invocation, Trajectory
from .json import Json
from .names import PERFORMANCE
from .result import Rejected, ScoreColumn, ScoredBatch
from .trajectory import is_as_read

TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.string(),
    "json": pa.string(),
    "null": pa.string(),  # few readers of Parquet support Arrow's null type
}
WIDE = 256
"""Number of dataset columns above which rows are passed to the writer as JSON."""
PACKED = (("row", "json"),)
"""(name, type) of the column that holds such rows."""
MESSAGE_BYTES = 32 << 20
"""Approximate bytes of text in one encoded record batch."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an output table.

    Attributes:
        name: Name of the column.
        type: "bool", "int64", "float64", "string", "timestamp" (ISO 8601 text), "json" (JSON text) or "null" (a dataset
            column without any value; of Arrow type string).
        volatile: Whether its values are measured, so that two live runs may differ.
        standard: evalbeam's own name if `output.column_style` chooses another; else "".
    """

    name: str
    type: str
    volatile: bool = False
    standard: str = ""

    def field(self) -> pa.Field:
        """Builds the Arrow field, with "evalbeam.type" and "evalbeam.volatile" in its metadata."""
        return _field(self.name, self.type, self.volatile)


@lru_cache(maxsize=4096)  # every batch has the same ones
def _field(name: str, type_: str, volatile: bool) -> pa.Field:
    metadata = {"evalbeam.type": type_, **({"evalbeam.volatile": "true"} if volatile else {})}
    return pa.field(name, TYPES[type_], metadata=metadata)


@dataclass(frozen=True, slots=True)
class MetricColumns:
    """Properties of a metric that determine its columns.

    Attributes:
        name: Output name of the metric.
        outputs: Optional columns that it fills.
        titles: Column names by part (score, explanation ...) if they are not evalbeam's own.
        words: Words that are written instead of scores, by score; empty for numbers.
        measured: Whether its scores are measured, so that two live runs may differ.
    """

    name: str
    outputs: tuple[str, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[float, str] = field(default_factory=dict)
    measured: bool = False

    def column(self, part: str, type_: str) -> Column:
        """Builds the column of one part."""
        standard = f"{self.name}/{part}"
        title = self.titles.get(part, standard)
        volatile = self.measured and part in ("score", "details")
        return Column(title, type_, volatile, standard="" if title == standard else standard)

    def columns(self) -> list[Column]:
        """Builds all columns of the metric, in order."""
        parts = {"score": "string" if self.words else "float64"}
        optional = {"explanation": "string", "pairwise_choice": "string", "confidence": "float64", "details": "json"}
        parts |= {part: type_ for part, type_ in optional.items() if part in self.outputs}
        return [self.column(part, type_) for part, type_ in {**parts, "status": "string", "error": "string"}.items()]


def schema(columns: Iterable[Column]) -> pa.Schema:
    """Builds the Arrow schema of the columns."""
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
"""Names of evalbeam's columns; a dataset column of such a name becomes `dataset.<name>`."""

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
"""Columns of the errors table. `source` is "row" (a rejected input row, with file and line; without a line if rows have
no order), "call" (a failed call, with its ids) or "label" (a label that belongs to no row, with both)."""

CHANGES = (
    Column("instance_id", "string"),
    Column("metric", "string"),
    Column("before", "float64"),
    Column("after", "float64"),
)
"""Columns of the table of scores that differ between two runs."""

_DIFFERENCE_TYPES: Mapping[str, str] = {
    "slice": "json",
    **dict.fromkeys(("metric", "verdict", "reason"), "string"),
    **dict.fromkeys(("family", "instances", "pairs", "better", "worse", "newly_failing", "fixed"), "int64"),
    **dict.fromkeys(("lost", "gained", "uncalled"), "int64"),
}
COMPARISON = tuple(Column(f.name, _DIFFERENCE_TYPES.get(f.name, "float64")) for f in fields(Difference))
"""Columns of the table of a comparison of two runs."""


MOVED = "dataset."
"""Begins the names of dataset columns in the instances table whose own names are taken there."""


def dataset_column(name: str, metrics: Sequence[MetricColumns]) -> str:
    """Returns the name of a dataset column in the instances table."""
    taken = name in OWN_NAMES or name.startswith(MOVED)
    taken |= any(name.startswith(f"{m.name}/") or name in m.titles.values() for m in metrics)
    return MOVED + name if taken else name


def instance_columns(dataset: Sequence[tuple[str, str]], metrics: Sequence[MetricColumns]) -> tuple[Column, ...]:
    """Builds the columns of the instances table, in order."""
    own = [Column(dataset_column(name, metrics), type_) for name, type_ in dataset]
    titles = {m.name: m.titles["score"] for m in metrics if m.name in PERFORMANCE and "score" in m.titles}
    measured = [replace(c, name=titles[c.name], standard=c.name) if c.name in titles else c for c in _INVOCATION]
    return (*_IDENTITY, *own, *measured, *(c for m in metrics if m.name not in PERFORMANCE for c in m.columns()))


def json_text(value: Json) -> str:
    """Encodes a value as JSON text."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # keys that are not strings: allowing them always would double the time
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def text(value: Json) -> str | None:
    """Converts a value for a text column: strings are kept, other values become JSON text."""
    return value if value is None or isinstance(value, str) else json_text(value)


def instance_records(batch: ScoredBatch, metrics: Sequence[MetricColumns]) -> Iterator[pa.RecordBatch]:
    """Converts a batch to rows of the instances table, as record batches of at most about `MESSAGE_BYTES`.

    Columns with equal values share their buffers. More than `WIDE` dataset columns are packed into one column of JSON
    text, which schemas/wide.py unpacks: an array for each column of many small batches would dominate the cost.
    """
    target = schema(instance_columns(PACKED if len(batch.columns) > WIDE else batch.columns, metrics))
    responses = [text(e.invocation.response) for e in batch.examples]
    for low, high in _split_by_size([len(r) if r else 0 for r in responses]):
        yield pa.record_batch(list(_build_arrays(batch, low, high, responses[low:high], metrics)), schema=target)


def _split_by_size(sizes: list[int]) -> Iterator[tuple[int, int]]:
    low, size = 0, 0
    for i, width in enumerate(sizes):
        if i > low and size + width > MESSAGE_BYTES:
            yield low, i
            low, size = i, 0
        size += width
    if low < len(sizes):
        yield low, len(sizes)


class _Arrays:
    """Builds Arrow arrays of the same rows; columns with equal values share one array."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._repeated: dict[tuple[str | None, str], pa.Array] = {}
        self._texts: dict[int, list[tuple[list[str | None], pa.Array]]] = {}  # by a hash: there may be many columns

    def repeated(self, value: str | None, type_: str = "string") -> pa.Array:
        """Returns an array with one value in all rows."""
        key = value, type_
        if key not in self._repeated:
            self._repeated[key] = pa.repeat(pa.scalar(value, TYPES[type_]), self.size)
        return self._repeated[key]

    def of(self, values: list[Any], type_: str = "string") -> pa.Array:
        """Returns an array with one value for each row; "json" and "timestamp" values are already text."""
        if values.count(None) == self.size:
            return self.repeated(None, type_)
        if not pa.types.is_string(TYPES[type_]):
            return pa.array(values, TYPES[type_])
        # The hash of some values alone: that of all long texts would take longer than their array.
        alike = self._texts.setdefault(hash((values[0], values[-1], *values[:: self.size // 4 + 1])), [])
        for known, array in alike:
            if known == values:
                return array
        alike.append((values, pa.array(values, pa.string())))
        return alike[-1][1]


def _build_arrays(
    batch: ScoredBatch, low: int, high: int, responses: list[str | None], metrics: Sequence[MetricColumns]
) -> Iterator[pa.Array]:
    made, examples = _Arrays(high - low), batch.examples[low:high]
    given: dict[str, list[Json]] = {}
    yield made.of([e.instance.instance_id for e in examples])
    yield made.of([e.trial for e in examples], "int64")
    rows = [e.instance.row for e in examples]
    if len(batch.columns) > WIDE:
        yield made.of([json_text(row) for row in rows])
    else:
        given = {n: dataset_values([row.get(n) for row in rows], t) for n, t in batch.columns}
        yield from (made.of(given[n], t) for n, t in batch.columns)
    known = [m.name for m in metrics if not m.measured]
    turns = made.of(_encode_turns(batch, low, high, known))
    texts = given.get(_TRAJECTORY) if dict(batch.columns).get(_TRAJECTORY) == "json" else None
    trajectories = _encode_trajectories(examples, texts)
    yield from _build_invocation_arrays(made, [e.invocation for e in examples], responses, trajectories, turns)
    for metric in metrics:
        if metric.name not in PERFORMANCE:
            yield from _build_score_arrays(made, batch.scores[metric.name], low, high, metric)


def dataset_values(values: list[Json], type_: str) -> list[Json]:
    """Converts the values of one dataset column for its Arrow array."""
    if type_ == "json":
        dumps = orjson.dumps
        return [None if v is None else dumps(v).decode() for v in values]
    if type_ == "float64":
        return [None if v is None else float(v) for v in values]
    return values


def _build_invocation_arrays(
    made: _Arrays, calls: list[Invocation], responses: list[str | None], trajectories: list[str | None], turns: pa.Array
) -> Iterator[pa.Array]:
    usages = [c.usage for c in calls]
    yield made.of([c.status for c in calls])
    yield made.of(responses)
    yield made.of(trajectories)
    yield made.of([_encode_context(c.retrieved_context) for c in calls])
    yield turns
    yield made.of([c.latency_in_seconds for c in calls], "float64")
    yield made.of([_FAILURE.get(c.status) for c in calls], "int64")
    yield made.of([c.error_type for c in calls])
    yield made.of([c.error_message for c in calls])
    yield made.of([c.attempts for c in calls], "int64")
    yield made.of([u and u.input_tokens for u in usages], "int64")
    yield made.of([u and u.output_tokens for u in usages], "int64")


_FAILURE = {"ok": 0, "failed": 1}
_TRAJECTORY = "predicted_trajectory"


def _encode_trajectories(examples: Sequence[Example], texts: Sequence[str | None] | None) -> list[str | None]:
    """Encodes the predicted trajectories, given the texts of the dataset's column of that name: most are the same."""
    made = [e.invocation.predicted_trajectory for e in examples]
    if texts is None:
        return [_encode_trajectory(calls) for calls in made]
    rows = [e.instance.row.get(_TRAJECTORY) for e in examples]
    return [
        text if is_as_read(calls, row) else _encode_trajectory(calls)
        for calls, row, text in zip(made, rows, texts, strict=True)
    ]


def _encode_trajectory(calls: Trajectory | None) -> str | None:
    return None if calls is None else json_text([{"tool_name": c.tool_name, "tool_input": c.tool_input} for c in calls])


def _encode_context(chunks: tuple[Chunk, ...] | None) -> str | None:
    return None if chunks is None else json_text([{"content": c.content, "doc_uri": c.doc_uri} for c in chunks])


def _encode_turns(batch: ScoredBatch, low: int, high: int, names: Sequence[str]) -> list[str | None]:
    """Encodes the turns of conversations, each with its `scores` from these metrics' details under "turns".

    Measured values are left out, so that the column is the same in every run.
    """
    if all(e.invocation.turns is None for e in batch.examples[low:high]):
        return [None] * (high - low)
    return [_encode_turns_of(batch, i, names) for i in range(low, high)]


def _encode_turns_of(batch: ScoredBatch, i: int, names: Sequence[str]) -> str | None:
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


def _build_score_arrays(
    made: _Arrays, column: ScoreColumn, low: int, high: int, metric: MetricColumns
) -> Iterator[pa.Array]:
    def sparse(values: dict[int, Any], type_: str = "string", show: Callable[[Any], Any] | None = None) -> pa.Array:
        if not values:
            return made.repeated(None, type_)
        if show is None:
            return made.of([values.get(i) for i in range(low, high)], type_)
        return made.of([show(values[i]) if i in values else None for i in range(low, high)], type_)

    values = column.values[low:high]
    words = metric.words
    yield made.of([None if v is None else words.get(v) for v in values]) if words else made.of(values, "float64")
    if "explanation" in metric.outputs:
        yield sparse(column.explanations)
    if "pairwise_choice" in metric.outputs:
        yield sparse(column.labels)
    if "confidence" in metric.outputs:
        yield sparse(column.confidences, "float64")
    if "details" in metric.outputs:
        yield sparse(column.details, show=json_text)
    if column.status:
        yield made.of([column.status.get(i, "scored") for i in range(low, high)])
    else:
        yield made.repeated("scored")
    yield sparse(column.errors, show=lambda e: f"{e.code}: {e.message}")


def failed_call(example: Example) -> dict[str, Json] | None:
    """Builds the errors-table row of an example whose call failed; `None` if it did not."""
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
    """Builds the errors-table row of a rejected input row; `line` is counted from the start of its file."""
    return {
        "source": "row",
        "file": rejected.file,
        "line": line,
        "code": rejected.code,
        "message": rejected.message,
        "raw": rejected.raw,
    }


def error_order(row: dict[str, Json]) -> tuple[Any, ...]:
    """Returns the sort key of the errors table: rejected rows by location, then failed calls by instance and trial."""
    place = (row.get("file") or "", row.get("line") or 0, row.get("instance_id") or "", row.get("trial") or 0)
    what = (row.get("code") or "", row.get("raw") or "", row.get("message") or "")
    return (row["source"] != "row", *place, *what)


def table(rows: Sequence[dict[str, Json]], columns: Sequence[Column]) -> pa.RecordBatch:
    """Converts plain rows to a record batch with the schema of the columns."""
    target = schema(columns)
    return pa.record_batch([pa.array([r.get(f.name) for r in rows], f.type) for f in target], schema=target)
