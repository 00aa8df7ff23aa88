"""The step that turns rows into instances: finds their fields, hashes their identity, rejects unusable rows."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from ..schemas.batch import RowBlock, pack_row
from ..schemas.errors import RowError
from ..schemas.identity import position, selection_hash
from ..schemas.instance import Instance
from ..schemas.json import Json
from ..schemas.result import Rejected
from .dialects._rules import RowRules
from .facts import DatasetStats, smallest
from .judging.needs import Needs
from .runtime import counters
from .runtime.background import Background
from .runtime.collector import relax_collector
from .runtime.spill import Spill, SpillWriter

_HELD_BYTES = 16 << 20
"""Bytes of packed rows in memory, over all shards, before the largest shard is written."""


@dataclass
class Normalize(beam.PTransform):
    """PCollection[RowBlock] -> rows: PCollection[(shard, packed instances)], rejected: Rejected, facts: DatasetStats.

    Every shard gets at least one value, possibly an empty marker, unless no file has any rows.

    Attributes:
        rules: Rules by which rows are read.
        shards: Number of shards by which instances are keyed.
        limit: Most rows of the dataset to keep.
        bulk: Whether the following stages only score recorded answers.
        needs: Counts the questions to judges of a row, if a budget bounds them.
        spill: Where the packed instances go.
    """

    rules: RowRules
    shards: int
    limit: int | None = None
    bulk: bool = False
    needs: Needs | None = None
    spill: Spill = field(default_factory=Spill)

    # Any: Beam has no type for several tagged outputs, the `rows`, `rejected` and `facts` of the class
    def expand(self, input_or_inputs: beam.PCollection[RowBlock]) -> Any:
        typed = beam.ParDo(_Normalize(self)).with_output_types(tuple[int, bytes], rejected=Rejected, facts=DatasetStats)
        return input_or_inputs | "ReadRow" >> typed.with_outputs("rejected", "facts", main="rows")


class _Normalize(beam.DoFn):
    def __init__(self, step: Normalize) -> None:
        self.rules, self.shards, self.limit, self.bulk = step.rules, step.shards, step.limit, step.bulk
        self.needs, self.spill = step.needs, step.spill

    def setup(self) -> None:
        self.packing, self.shuffled = Background(), SpillWriter(self.spill)
        if self.bulk:
            relax_collector()

    def teardown(self) -> None:
        self.packing.close()
        self.shuffled.close()

    def start_bundle(self) -> None:
        deque(self.packing.rest(), maxlen=0)  # left by a bundle that failed
        self.held: defaultdict[int, bytearray] = defaultdict(_open_list)
        self.total = 0
        self.facts = DatasetStats()
        self.picks: list[int] = []
        self.first = False

    def process(self, element: RowBlock) -> Iterator[Any]:
        facts, rules = self.facts, self.rules
        self.first |= element.range == 0
        facts.lines[(element.file, element.range)] = element.lines
        refused, taken, whole = len(element.rejected), [], True
        for rejected in element.rejected:
            yield TaggedOutput("rejected", rejected)
        for line, row in element.rows:
            try:
                found = rules.rows(row)
                whole &= len(found) == 1 and (found[0] is row or found[0].keys() >= row.keys())
                taken += [(each, *rules.read(each)) for each in found]
            except RowError as error:
                refused += 1
                yield TaggedOutput("rejected", _reject(element, line, row, error))
        facts.rejected += refused
        if rules.sample is not None:
            taken = [found for found in taken if rules.keeps(found[1])]
        if whole:  # a row that holds several rows does not have the columns of the dataset
            facts.name(element.nulls)
        self._take(taken, element.infinite)
        while self.total >= _HELD_BYTES:
            self._flush(max(self.held, key=lambda shard: len(self.held[shard])))
            yield from self.packing.ready()
        counters.add("rows_read", len(taken))
        counters.add("rows_rejected", refused)

    def _take(self, read: Sequence[tuple[dict[str, Json], str, dict[str, Json]]], infinite: Collection[str]) -> None:
        facts, held, shards, size = self.facts, self.held, self.shards, 0
        for row, instance_id, fields in read:
            packed = pack_row(instance_id, row, fields)
            size += len(packed)
            rows = held[position(instance_id, shards)]
            rows += packed
            rows += b","
        self.total += size + len(read)
        facts.rows += len(read)
        facts.bytes += size
        facts.see([row for row, _, _ in read], infinite)
        if self.needs is not None:
            for row, instance_id, fields in read:
                counts = self.needs.of(Instance(instance_id, row, fields))
                facts.asked = [a + b for a, b in zip(facts.asked, counts, strict=True)]
        if self.limit is not None:
            self.picks += [selection_hash(instance_id) for _, instance_id, _ in read]
            if len(self.picks) > 2 * self.limit + 1024:
                self.picks = smallest(self.picks, self.limit)

    def _flush(self, shard: int) -> None:
        held = self.held.pop(shard)
        self.total -= len(held) - 1
        self.packing.submit(_pack, shard, held, self.shuffled)

    def finish_bundle(self) -> Iterator[Any]:
        for shard in sorted(self.held):
            self._flush(shard)
        for packed in self.packing.rest():
            yield WindowedValue(packed, 0, (GlobalWindow(),))
        if self.first:  # the bundle that reads the start of a file emits the markers of all shards
            for shard in range(self.shards):
                yield WindowedValue((shard, b""), 0, (GlobalWindow(),))
        if self.limit is not None:
            self.facts.picks = smallest(self.picks, self.limit)
        yield TaggedOutput("facts", WindowedValue(self.facts, 0, (GlobalWindow(),)))


def _open_list() -> bytearray:
    """Opens a JSON list to which rows are appended, each with a comma; separate bytes would take twice the time."""
    return bytearray(b"[")


def _pack(shard: int, rows: bytearray, shuffled: SpillWriter) -> tuple[int, bytes]:
    rows[-1:] = b"]"
    return shard, shuffled.put(rows)


def _reject(block: RowBlock, line: int, row: dict[str, Json], error: RowError) -> Rejected:
    raw = orjson.dumps(row).decode()[:1000]
    return Rejected(block.file, block.range, line, error.code, error.message, raw)
