"""What travels between steps: rows in batches, to and from bytes (the coders are in transforms/runtime/coders.py)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa

from .conversation import turn_in, turn_out
from .instance import (
    Chunk,
    Example,
    Instance,
    Invocation,
    ToolCall,
    Usage,
)
from .json import Json
from .result import Rejected

Row = TypeVar("Row", Instance, Example)

MAX_ROWS = 1024
"""Rows of one batch at most."""
MAX_BYTES = 8 << 20
"""Bytes of one batch's JSON at most (but for a single larger row)."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows as a reader found them, in the order of their file.

    Attributes:
        file: Path as given.
        range: Number of the byte range of the file.
        rows: (line within the range counted from 1, row).
        rejected: Lines of the block that are no rows.
        lines: Lines of the range up to and including this block's last one.
        nulls: Columns that the source has although no row of the block need have a value in them.
        infinite: Columns with infinities among their numbers, which stand in the rows as the text of `INFINITIES`.
    """

    file: str
    range: int
    rows: list[tuple[int, dict[str, Json]]]
    rejected: list[Rejected]
    lines: int
    nulls: Collection[str] = ()
    infinite: Collection[str] = ()

    def to_bytes(self) -> bytes:
        """The block as JSON."""
        rejected = [[r.file, r.range, r.line, r.code, r.message, r.raw] for r in self.rejected]
        return orjson.dumps(
            [self.file, self.range, self.rows, rejected, self.lines, sorted(self.nulls), sorted(self.infinite)]
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> RowBlock:
        """The block that `to_bytes` wrote."""
        file, range_, rows, rejected, *rest = orjson.loads(data)
        return cls(file, range_, [(n, row) for n, row in rows], [Rejected(*r) for r in rejected], *rest)


@dataclass(frozen=True, slots=True)
class Batch(Generic[Row]):
    """Rows of one shard and one output part, in order of instance_id and trial; all trials of an instance together.

    Attributes:
        rows: At most `MAX_ROWS`, instances or examples.
        part: Number of the output part.
        columns: (name, type) of the dataset's columns, as found over the whole dataset.
    """

    rows: tuple[Row, ...]
    part: int = 0
    columns: tuple[tuple[str, str], ...] = ()

    def to_bytes(self) -> bytes:
        """The batch as compressed JSON."""
        rows = [_instance_out(r) if isinstance(r, Instance) else example_out(r) for r in self.rows]
        return compress(orjson.dumps([self.part, self.columns, rows]))

    @classmethod
    def from_bytes(cls, data: bytes) -> Batch[Any]:
        """The batch that `to_bytes` wrote."""
        part, columns, rows = orjson.loads(decompress(data))
        make: list[Any] = [_instance_in(r) if isinstance(r[0], str) else example_in(r) for r in rows]
        return cls(tuple(make), part, tuple((name, type_) for name, type_ in columns))


def pack_row(instance_id: str, row: dict[str, Json], fields: dict[str, Json]) -> bytes:
    """One instance as JSON."""
    return orjson.dumps([instance_id, row, fields] if fields else [instance_id, row])


def unpack(data: bytes) -> list[Instance]:
    """The instances of a list of `pack_row`'s, compressed."""
    return [Instance(row[0], row[1], row[2] if len(row) > 2 else {}) for row in orjson.loads(decompress(data))]


def compress(raw: bytes | bytearray | pa.Buffer) -> bytes:
    """Length of the raw bytes (8, little-endian), then zstd at level 2 (5 % more than level 3, in 3/4 of its time)."""
    return len(raw).to_bytes(8, "little") + pa.Codec("zstd", compression_level=2).compress(raw, asbytes=True)


def raw_size(data: bytes | memoryview) -> int:
    """Bytes that `decompress` would give; 0 for a marker."""
    return int.from_bytes(data[:8], "little")


def decompress(data: bytes | memoryview) -> bytes:
    """What `compress` was given."""
    return pa.Codec("zstd").decompress(memoryview(data)[8:], raw_size(data), asbytes=True)


def _instance_out(instance: Instance) -> list[Json]:
    return [instance.instance_id, instance.row, instance.fields]


def _instance_in(value: list[Json]) -> Instance:
    return Instance(value[0], value[1], value[2] if len(value) > 2 else {})


def example_out(example: Example) -> list[Json]:
    """An example as JSON values."""
    call = example.invocation
    chunks = None if call.retrieved_context is None else [[c.content, c.doc_uri] for c in call.retrieved_context]
    trajectory = call.predicted_trajectory
    calls = None if trajectory is None else [[c.tool_name, c.tool_input] for c in trajectory]
    usage = call.usage and [call.usage.input_tokens, call.usage.output_tokens]
    return [
        _instance_out(example.instance),
        [call.status, call.response, calls, chunks, call.latency_in_seconds, call.error_type, call.error_message]
        + [call.attempts, usage, call.extra, call.trajectory_error, call.turns and [turn_out(t) for t in call.turns]],
        example.trial,
    ]


def example_in(value: list[Json]) -> Example:
    """The example that `example_out` wrote."""
    instance, call, trial = value
    status, response, calls, chunks, latency, error_type, error_message, attempts, usage, extra, *rest = call
    trajectory_error, turns = rest
    return Example(
        _instance_in(instance),
        Invocation(
            status,
            response,
            None if calls is None else tuple(ToolCall(*c) for c in calls),
            None if chunks is None else tuple(Chunk(*c) for c in chunks),
            latency,
            error_type,
            error_message,
            attempts,
            None if usage is None else Usage(*usage),
            extra,
            trajectory_error,
            turns and tuple(turn_in(t) for t in turns),
        ),
        trial,
    )
