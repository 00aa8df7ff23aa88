"""Elements between steps: blocks and batches of rows, encoded as bytes by transforms/runtime/coders.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa

from .conversation import turn_in, turn_out
from .identity import input_id
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
"""Maximum rows of one batch."""
MAX_BYTES = 8 << 20
"""Maximum bytes of one batch as JSON; a single larger row is a batch of its own."""
# The constructor of a frozen dataclass takes three times as long, so the slots are set directly.
_new = object.__new__
_put_id, _put_row, _put_fields = (Instance.__dict__[f.name].__set__ for f in fields(Instance))
_put_instance, _put_invocation, _put_trial = (Example.__dict__[f.name].__set__ for f in fields(Example))
_ZSTD, _NONE = 0, 1
"""Numbers of codecs."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows as read from a file, in file order.

    Attributes:
        file: Path as configured.
        range: Number of the byte range of the file.
        rows: (line within the range, counted from 1; row).
        rejected: Lines of the block that are not valid rows.
        lines: Number of lines of the range up to and including this block's last line.
        nulls: Columns of the source, even if no row of the block has a value in them.
        infinite: Columns with infinities among their numbers; in the rows these are the texts of `INFINITIES`.
    """

    file: str
    range: int
    rows: list[tuple[int, dict[str, Json]]]
    rejected: list[Rejected]
    lines: int
    nulls: Collection[str] = ()
    infinite: Collection[str] = ()

    def to_bytes(self) -> bytes:
        """Encodes the block as JSON."""
        rejected = [[r.file, r.range, r.line, r.code, r.message, r.raw] for r in self.rejected]
        return orjson.dumps(
            [self.file, self.range, self.rows, rejected, self.lines, sorted(self.nulls), sorted(self.infinite)]
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> RowBlock:
        """Decodes a block encoded by `to_bytes`."""
        file, range_, rows, rejected, *rest = orjson.loads(data)
        return cls(file, range_, [(n, row) for n, row in rows], [Rejected(*r) for r in rejected], *rest)


@dataclass(frozen=True, slots=True)
class Batch(Generic[Row]):
    """Rows of one shard and one output part, ordered by instance_id and trial; trials of an instance stay together.

    Attributes:
        rows: Instances or examples, at most `MAX_ROWS`.
        part: Number of the output part.
        columns: (name, type) of the columns of the whole dataset.
    """

    rows: tuple[Row, ...]
    part: int = 0
    columns: tuple[tuple[str, str], ...] = ()

    def to_bytes(self) -> bytes:
        """Encodes the batch as compressed JSON."""
        rows = [_instance_out(r) if isinstance(r, Instance) else example_out(r) for r in self.rows]
        return compress(orjson.dumps([self.part, self.columns, rows]))

    @classmethod
    def from_bytes(cls, data: bytes) -> Batch[Any]:
        """Decodes a batch encoded by `to_bytes`."""
        part, columns, rows = orjson.loads(decompress(data))
        make: list[Any] = [_instance_in(r) if isinstance(r[0], str) else example_in(r) for r in rows]
        return cls(tuple(make), part, tuple((name, type_) for name, type_ in columns))


def cut_rows(
    rows: Sequence[Row], id_of: Callable[[Row], str], width_of: Callable[[Row], int] | None, most: int
) -> Iterator[Sequence[Row]]:
    """Cuts sorted rows into batches of at most `most` rows and about `MAX_BYTES`, as far as the next lines allow.

    Equal inputs stay together, since they are a cluster. More of them than a batch holds have batches of their own.
    The first of these has two instances at least, so each holds an instance whose ordinal shows that there are others.
    Trials of an instance always stay together.

    Args:
        rows: Rows ordered by the id of their instance.
        id_of: Gives the id of a row's instance.
        width_of: Gives the bytes of a row; `None` if all rows together are below `MAX_BYTES`.
        most: Most rows of a batch.
    """
    batch: list[Row] = []
    size = 0
    for same in _equal_inputs(rows, id_of):
        width = sum(map(width_of, same)) if width_of else 0
        if batch and (len(batch) + len(same) > most or size + width > MAX_BYTES):
            yield batch
            batch, size = [], 0
        if len(same) > 1 and (len(same) > most or width > MAX_BYTES):
            yield from _cut_input(same, id_of, width_of, most)
            continue
        batch += same
        size += width
    if batch:
        yield batch


def _equal_inputs(rows: Sequence[Row], id_of: Callable[[Row], str]) -> Iterator[Sequence[Row]]:
    """Yields the rows of each input, which follow each other."""
    ids = list(map(id_of, rows))
    if len(set(ids)) == len(ids) and "-" not in "".join(ids):
        yield from ([row] for row in rows)
        return
    for _, same in groupby(zip(ids, rows, strict=True), key=lambda one: input_id(one[0])):
        yield [row for _, row in same]


def _cut_input(
    rows: Sequence[Row], id_of: Callable[[Row], str], width_of: Callable[[Row], int] | None, most: int
) -> Iterator[Sequence[Row]]:
    """Cuts the rows of one input, see `cut_rows`."""
    piece: list[Row] = []
    size = 0
    for number, (_, same) in enumerate(groupby(rows, key=id_of)):
        trials = list(same)
        width = sum(map(width_of, trials)) if width_of else 0
        if piece and number > 1 and (len(piece) + len(trials) > most or size + width > MAX_BYTES):
            yield piece
            piece, size = [], 0
        piece += trials
        size += width
    yield piece


def pack_row(instance_id: str, row: dict[str, Json], fields: dict[str, Json]) -> bytes:
    """Encodes one instance as JSON."""
    return orjson.dumps([instance_id, row, fields] if fields else [instance_id, row])


def unpack(data: bytes | memoryview) -> list[Instance]:
    """Decodes a compressed JSON list of instances encoded by `pack_row`."""
    return [_instance_in(row) for row in orjson.loads(decompress(data))]


def compress(raw: bytes | bytearray | pa.Buffer, fast: bool = False) -> bytes:
    """Compresses bytes, after their raw length and the codec (`size_head`).

    Args:
        raw: What to compress.
        fast: Not at all, for bytes that stay on this machine: a disk takes and gives them sooner than lz4 does. Else
            with zstd, level 2: the output is 5 % larger than that of level 3, in 3/4 of the time.
    """
    if fast:
        return size_head(len(raw)) + memoryview(raw)
    packed = pa.Codec("zstd", compression_level=2).compress(raw, asbytes=True)
    return size_head(len(raw), _ZSTD) + packed


def size_head(size: int, codec: int = _NONE) -> bytes:
    """Returns what stands before bytes: their raw length (7 bytes, little-endian) and the codec (1 byte)."""
    return size.to_bytes(7, "little") + bytes([codec])


def raw_size(data: bytes | memoryview) -> int:
    """Returns the number of bytes after decompression; 0 for a marker."""
    return int.from_bytes(data[:7], "little")


def decompress(data: bytes | memoryview) -> bytes | memoryview:
    """Decompresses the output of `compress`."""
    body = memoryview(data)[8:]
    return body if data[7] == _NONE else pa.Codec("zstd").decompress(body, raw_size(data), asbytes=True)


def _instance_out(instance: Instance) -> list[Json]:
    return [instance.instance_id, instance.row, instance.fields]


def _instance_in(value: list[Json]) -> Instance:
    instance = _new(Instance)
    _put_id(instance, value[0])
    _put_row(instance, value[1])
    _put_fields(instance, value[2] if len(value) > 2 else {})
    return instance


def make_example(instance: Instance, invocation: Invocation, trial: int) -> Example:
    """Builds an example sooner than its constructor does."""
    example = _new(Example)
    _put_instance(example, instance)
    _put_invocation(example, invocation)
    _put_trial(example, trial)
    return example


def example_out(example: Example) -> list[Json]:
    """Converts an example to JSON values."""
    call = example.invocation
    chunks = None if call.retrieved_context is None else [[c.content, c.doc_uri] for c in call.retrieved_context]
    trajectory = call.predicted_trajectory
    calls = None if trajectory is None else [[c.tool_name, c.tool_input] for c in trajectory]
    used = call.usage
    usage = used and [used.input_tokens, used.output_tokens, *([used.model] if used.model else [])]
    return [
        _instance_out(example.instance),
        [call.status, call.response, calls, chunks, call.latency_in_seconds, call.error_type, call.error_message]
        + [call.attempts, usage, call.extra, call.trajectory_error, call.turns and [turn_out(t) for t in call.turns]],
        example.trial,
    ]


def example_in(value: list[Json]) -> Example:
    """Converts the JSON values of `example_out` back to an example."""
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
