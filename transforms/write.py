"""The steps that write the instances and errors tables under temporary names; FinishRun renames the files."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
import orjson
import pyarrow as pa
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from ..schemas import tables
from ..schemas.batch import compress, decompress
from ..schemas.result import Rejected, ScoredBatch
from ..schemas.run_folder import RunFolder
from ..schemas.wide import unpack_columns
from .facts import DatasetStats
from .io import storage
from .runtime import counters
from .runtime.background import Background
from .runtime.coders import coder_of
from .runtime.gathering import Gather
from .runtime.spill import Spill, SpillWriter
from .writers.base import Writer

GROUP_ROWS = 8_192
"""Most rows of a row group."""
GROUP_BYTES = 16 << 20
"""Most bytes of text in a row group, except for a single larger row."""
_ID_BYTES = 64
"""Length to which the first id of an encoded batch is padded, so that encoded batches sort by it."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete file of a table, still under its temporary name.

    Attributes:
        table: "instances" or "errors".
        temporary: Its current path.
        name: Its final path, relative to the run.
        rows: Rows in it.
        counts: Instances by status.
        columns: (name, type, volatile, our own name if that differs) of its columns.
    """

    table: str
    temporary: str
    name: str
    rows: int
    counts: dict[str, int]
    columns: tuple[tuple[str, str, bool, str], ...]

    def to_bytes(self) -> bytes:
        """Encodes the record as JSON."""
        return orjson.dumps([self.table, self.temporary, self.name, self.rows, self.counts, self.columns])

    @classmethod
    def from_bytes(cls, data: bytes) -> WrittenFile:
        """Decodes the record that `to_bytes` wrote."""
        table, temporary, name, rows, counts, columns = orjson.loads(data)
        return cls(table, temporary, name, rows, counts, tuple((n, t, v, s) for n, t, v, s in columns))


coder_of(WrittenFile)


@dataclass
class WriteInstances(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[WrittenFile], one for each output part.

    Attributes:
        facts: Singleton side input.
        metrics: The columns of each metric.
        declared: Declared (name, type) of dataset columns.
        shards, limit: Determine the number of parts, together with the facts.
        output: Folder of the run.
        writer: Writer of the format.
        spill: Where the encoded batches go.
    """

    facts: AsSingleton
    metrics: tuple[tables.MetricColumns, ...]
    declared: tuple[tuple[str, str], ...]
    shards: int | None
    limit: int | None
    output: str
    writer: Writer
    spill: Spill = field(default_factory=Spill)

    def expand(self, input_or_inputs: beam.PCollection[ScoredBatch]) -> beam.PCollection[WrittenFile]:
        write = beam.Map(self._write, self.facts).with_output_types(WrittenFile)
        return (  # type: ignore[return-value]  (`|` gives a PValue)
            input_or_inputs
            | "Encode" >> beam.ParDo(_Encode(self.metrics, self.spill)).with_output_types(tuple[int, bytes])
            | "OrderByPart" >> beam.GroupByKey()
            | "WritePart" >> write
        )

    def _write(self, part: tuple[int, Iterable[bytes]], facts: DatasetStats) -> WrittenFile:
        index, encoded = part
        total = facts.parts(self.shards, self.limit)
        dataset = facts.types(self.declared)
        columns = tables.instance_columns(dataset, self.metrics)
        if len(dataset) > tables.WIDE:
            packed = decode_records(encoded, tables.instance_columns(tables.PACKED, self.metrics), self.spill)
            records = unpack_columns(packed, dataset, columns)
        else:
            records = decode_records(encoded, columns, self.spill)
        name = f"instances/part-{index:05d}-of-{total:05d}{self.writer.ending}"
        return write_table("instances", name, records, columns, self.output, self.writer)


class _Encode(beam.DoFn):
    def __init__(self, metrics: tuple[tables.MetricColumns, ...], spill: Spill) -> None:
        self.metrics, self.spill = metrics, spill

    def setup(self) -> None:
        self.compressing, self.shuffled = Background(), SpillWriter(self.spill)

    def teardown(self) -> None:
        self.compressing.close()
        self.shuffled.close()

    def start_bundle(self) -> None:
        deque(self.compressing.rest(), maxlen=0)  # left by a bundle that failed

    def process(self, element: ScoredBatch) -> Iterator[tuple[int, bytes]]:
        for part, first, stream in encode(element, self.metrics):
            self.compressing.submit(_compress, part, first, stream, self.shuffled)
        yield from self.compressing.ready()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for value in self.compressing.rest():
            yield WindowedValue(value, 0, (GlobalWindow(),))


def encode(batch: ScoredBatch, metrics: Sequence[tables.MetricColumns]) -> Iterator[tuple[int, bytes, pa.Buffer]]:
    """Encodes a batch as (part, first id, Arrow stream); an empty one is a marker, so that its part gets a file."""
    if not batch.examples:
        yield batch.part, b"", pa.py_buffer(b"")
    for records in tables.instance_records(batch, metrics):
        first = f"{records.column(0)[0].as_py()}/{records.column(1)[0].as_py():06d}"
        yield batch.part, first.encode().ljust(_ID_BYTES), _stream(records)


def _stream(records: pa.RecordBatch) -> pa.Buffer:
    """Writes an Arrow stream of distinct columns; its schema metadata maps the columns of the table to them."""
    numbers: dict[tuple[Any, ...], int] = {}
    places = [numbers.setdefault(_identity(column), len(numbers)) for column in records.columns]
    first = {place: i for i, place in reversed([*enumerate(places)])}
    distinct = records.select([first[place] for place in range(len(numbers))])
    distinct = distinct.replace_schema_metadata({"places": orjson.dumps(places)})
    measured = pa.MockOutputStream()
    _send(distinct, measured)
    stream = pa.allocate_buffer(measured.size())  # a growing buffer would be copied each time
    _send(distinct, pa.FixedSizeBufferWriter(stream))
    return stream


def _send(records: pa.RecordBatch, sink: Any) -> None:
    with pa.ipc.new_stream(sink, records.schema) as stream:
        stream.write_batch(records)


def _identity(column: pa.Array) -> tuple[Any, ...]:
    """Returns a key that is equal only for columns of the same type in the same memory."""
    return column.type.id, column.offset, *(b.address if b else 0 for b in column.buffers())


def _compress(part: int, first: bytes, stream: pa.Buffer, shuffled: SpillWriter) -> tuple[int, bytes]:
    # The whole stream at once: Arrow would compress a hundred small buffers one by one, in 1.5 times the time.
    return part, first + shuffled.put(stream) if first else b""


def decode_records(
    encoded: Iterable[bytes], columns: Sequence[tables.Column], spill: Spill
) -> Iterator[pa.RecordBatch]:
    """Decodes the record batches of a part, in the order of their first rows."""
    schema = tables.schema(columns)
    for value in sorted(v for v in encoded if v):
        with pa.ipc.open_stream(decompress(spill.fetch(memoryview(value)[_ID_BYTES:]))) as stream:
            places = orjson.loads(stream.schema.metadata[b"places"])
            for distinct in stream:
                yield pa.record_batch([distinct.column(place) for place in places], schema=schema)


def write_table(
    table: str,
    name: str,
    records: Iterable[pa.RecordBatch],
    columns: Sequence[tables.Column],
    output: str,
    writer: Writer,
) -> WrittenFile:
    """Writes a file of a table under a unique temporary name."""
    temporary = RunFolder(output).temporary(uuid.uuid4().hex, name)
    schema = tables.schema(columns)
    rows = 0
    counts: dict[str, int] = dict.fromkeys(("ok", "failed", "not_called", "over_budget"), 0)
    with storage.create(temporary) as stream, writer.open(stream, schema) as sink, closing(Background(1)) as writing:
        for group in row_groups(records, schema):
            rows += group.num_rows
            if table == "instances":
                counters.add("rows_written", group.num_rows)
                for entry in group.column("status").value_counts().to_pylist():
                    counts[entry["values"]] += entry["counts"]
            writing.submit(sink.write, group)
            deque(writing.ready(), maxlen=0)
        deque(writing.rest(), maxlen=0)
    found = tuple((c.name, c.type, c.volatile, c.standard) for c in columns)
    return WrittenFile(table, temporary, name, rows, counts if table == "instances" else {}, found)


def row_groups(records: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Regroups rows so that row groups depend on the rows alone, not on the batches in which they arrive."""
    held: list[pa.RecordBatch] = []
    sizes: list[np.ndarray] = []
    for batch in records:
        held.append(batch)
        sizes.append(_row_sizes(batch))
        while (end := _group_end(sizes)) is not None:
            table = pa.Table.from_batches(held, schema)
            yield table.slice(0, end).combine_chunks().to_batches()[0]
            rest = table.slice(end)
            held, sizes = rest.to_batches(), [np.concatenate(sizes)[end:]] if rest.num_rows else []
    if held:
        rest = pa.Table.from_batches(held, schema).combine_chunks()
        held.clear()  # what was copied is not kept while the last group is written
        yield rest.to_batches()[0]


def _row_sizes(batch: pa.RecordBatch) -> np.ndarray:
    total = np.full(batch.num_rows, 8 * batch.num_columns, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_string(column.type):
            ends = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
            total += np.diff(ends)
    return total


def _group_end(sizes: list[np.ndarray]) -> int | None:
    rows, text = sum(len(s) for s in sizes), sum(int(s.sum()) for s in sizes)
    if rows <= GROUP_ROWS and text <= GROUP_BYTES:
        return None
    fits = int(np.searchsorted(np.cumsum(np.concatenate(sizes)), GROUP_BYTES, side="right"))
    end = min(max(fits, 1), GROUP_ROWS)
    return end if end < rows else None


@dataclass
class WriteErrors(beam.PTransform):
    """(rejected: PCollection[Rejected], scored: PCollection[ScoredBatch]) -> PCollection[WrittenFile], one file.

    Attributes:
        facts: Singleton side input.
        output: Folder of the run.
        writer: Writer of the format.
        others: PCollection[bytes] of further rows, packed; `None` if there are none.
    """

    facts: AsSingleton
    output: str
    writer: Writer
    others: beam.PCollection[bytes] | None = None

    def expand(
        self, input_or_inputs: tuple[beam.PCollection[Rejected], beam.PCollection[ScoredBatch]]
    ) -> beam.PCollection[WrittenFile]:
        rejected, scored = input_or_inputs
        rows = rejected | "RejectedRows" >> beam.Map(_pack_rejected).with_output_types(bytes)
        calls = scored | "FailedCalls" >> beam.FlatMap(_pack_failed).with_output_types(bytes)
        others = () if self.others is None else (self.others,)
        write = beam.Map(self._write, self.facts).with_output_types(WrittenFile)
        return (rows, calls, *others) | Gather(bytes, b"") | "WriteErrors" >> write  # type: ignore[return-value]  (`|` gives a PValue)

    def _write(self, errors: tuple[int, Iterable[bytes]], facts: DatasetStats) -> WrittenFile:
        before = facts.lines_before()
        rows = [row for value in errors[1] if value for row in orjson.loads(decompress(value))]
        for row in rows:
            if row["source"] == "row":
                place = (row["file"], row.pop("range"))
                row["line"] = row["line"] + before.get(place, 0) if row["line"] else None
        rows.sort(key=tables.error_order)
        name = f"errors{self.writer.ending}"
        record = tables.table(rows, tables.ERRORS)
        return write_table("errors", name, [record] if rows else [], tables.ERRORS, self.output, self.writer)


def _pack_rejected(rejected: Rejected) -> bytes:
    row = {**tables.rejected_row(rejected, rejected.line), "range": rejected.range}
    return compress(orjson.dumps([row]))


def _pack_failed(batch: ScoredBatch) -> Iterator[bytes]:
    rows = [row for e in batch.examples if (row := tables.failed_call(e)) is not None]
    if rows:
        yield compress(orjson.dumps(rows))
