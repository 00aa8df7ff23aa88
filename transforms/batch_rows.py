"""The step after the shuffle: sorts the instances of a shard, numbers equal inputs, and cuts them into batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from ..schemas.batch import MAX_BYTES, MAX_ROWS, Batch, raw_size, unpack
from ..schemas.identity import canonical, input_id, position, selection_hash
from ..schemas.instance import Instance
from .facts import DatasetStats, RunLimits, select_rows
from .runtime.collector import relax_collector
from .runtime.spill import Spill


@dataclass
class BatchRows(beam.PTransform):
    """PCollection[(shard, packed instances)] -> PCollection[Batch[Instance]].

    A shard that holds only its marker still gives an empty batch for each of its parts.

    Attributes:
        facts: Singleton side input.
        shards: Number of shards by which the instances are keyed.
        parts: Number of output files, or `None` to choose it by size.
        limit: Most rows of the dataset to keep.
        allowed: Bounds of the dataset; if it exceeds them, all batches are empty.
        declared: Declared (name, type) of columns.
        bulk: Whether the stage only scores recorded answers.
        rows: Most rows of a batch.
        spill: Where the packed instances are.
    """

    facts: AsSingleton
    shards: int
    parts: int | None
    limit: int | None
    allowed: RunLimits
    declared: tuple[tuple[str, str], ...]
    bulk: bool = False
    rows: int = MAX_ROWS
    spill: Spill = field(default_factory=Spill)

    def expand(self, input_or_inputs: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[Batch[Instance]]:
        step = _Cut(self)
        cutting = beam.ParDo(step, self.facts).with_output_types(Batch)
        return input_or_inputs | "MeetByShard" >> beam.GroupByKey() | "Cut" >> cutting  # type: ignore[return-value]  (`|` gives a PValue)


class _Cut(beam.DoFn):
    def __init__(self, step: BatchRows) -> None:
        self.shards, self.parts, self.limit, self.allowed = step.shards, step.parts, step.limit, step.allowed
        self.declared, self.bulk, self.rows, self.spill = step.declared, step.bulk, step.rows, step.spill

    def setup(self) -> None:
        if self.bulk:
            relax_collector()

    def process(self, element: tuple[int, Iterable[bytes]], facts: DatasetStats) -> Iterator[Batch[Instance]]:
        shard, packed = element[0], [self.spill.fetch(value) for value in element[1]]
        parts = facts.parts(self.parts, self.limit)
        columns = facts.types(self.declared)
        refused = facts.refusal(self.allowed) is not None
        rows = [] if refused else sort_instances(i for value in packed if value for i in unpack(value))
        if self.limit is not None:
            keep = select_rows(facts, self.limit, (selection_hash(r.instance_id) for r in rows))
            rows = [row for row, k in zip(rows, keep, strict=True) if k]
        low, high = shard * parts // self.shards, ((shard + 1) * parts - 1) // self.shards
        empty = set(range(low, high + 1))
        for part, batch in cut(rows, parts, sum(map(raw_size, packed)) > MAX_BYTES, self.rows):
            empty.discard(part)
            yield Batch(batch, part, columns)
        for part in sorted(empty):
            yield Batch((), part, columns)


def sort_instances(rows: Iterable[Instance]) -> list[Instance]:
    """Sorts instances by id; those with the same input get ordinals in the order of their row's hash."""
    rows = sorted(rows, key=attrgetter("instance_id"))
    if len({row.instance_id for row in rows}) == len(rows):
        return rows
    by_id: dict[str, list[Instance]] = {}
    for row in rows:
        by_id.setdefault(row.instance_id, []).append(row)
    ordered: list[Instance] = []
    for instance_id, same in by_id.items():
        if len(same) > 1:
            same.sort(key=lambda r: hashlib.sha256(canonical(r.row)).digest())
            same = [r if k == 0 else Instance(f"{instance_id}-{k}", r.row, r.fields) for k, r in enumerate(same)]
            same.sort(key=attrgetter("instance_id"))
        ordered += same
    return ordered


def cut(
    rows: list[Instance], parts: int, weigh: bool = True, most: int = MAX_ROWS
) -> Iterator[tuple[int, tuple[Instance, ...]]]:
    """Cuts sorted instances into (part, batch): a batch ends with its part, at `most` rows and near `MAX_BYTES`.

    Equal inputs stay together, since they are a cluster. More of them than a batch holds have batches of their own.
    """
    groups = groupby(rows, key=lambda r: position(r.instance_id, parts)) if parts > 1 else [(0, rows)][: len(rows)]
    for part, group in groups:
        batch: list[Instance] = []
        size = 0
        for same in _equal_inputs(group):
            width = sum(map(_width, same)) if weigh else 0
            if batch and (len(batch) + len(same) > most or size + width > MAX_BYTES):
                yield part, tuple(batch)
                batch, size = [], 0
            if len(same) > 1 and (len(same) > most or width > MAX_BYTES):
                yield from ((part, piece) for piece in _pieces(same, weigh, most))
                continue
            batch += same
            size += width
        if batch:
            yield part, tuple(batch)


def _equal_inputs(rows: Iterable[Instance]) -> Iterator[list[Instance]]:
    """Yields the rows of each input, which follow each other."""
    rows = list(rows)
    if not any("-" in row.instance_id for row in rows):
        yield from ([row] for row in rows)
        return
    for _, same in groupby(rows, key=lambda row: input_id(row.instance_id)):
        yield list(same)


def _pieces(rows: Iterable[Instance], weigh: bool, most: int) -> Iterator[tuple[Instance, ...]]:
    piece: list[Instance] = []
    size = 0
    for row in rows:
        width = _width(row) if weigh else 0
        if piece and (len(piece) >= most or size + width > MAX_BYTES):
            yield tuple(piece)
            piece, size = [], 0
        piece.append(row)
        size += width
    yield tuple(piece)


def _width(row: Instance) -> int:
    return sum([len(v) if type(v) is str else 64 for v in row.row.values()])
