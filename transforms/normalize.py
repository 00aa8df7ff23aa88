"""Rows become instances: fields found, identity hashed, unusable rows set aside."""

from __future__ import annotations

import gc
import hashlib
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from ..schemas.batch import RowBlock, compress, pack_row
from ..schemas.conversation import is_conversation, said
from ..schemas.errors import RowError
from ..schemas.instance import ALIASES, Instance, Json
from ..schemas.result import Rejected
from .dialects.base import Dialect
from .facts import RunFacts, smallest
from .judging.needs import Needs
from .runtime import counters
from .runtime.background import Background

_HELD_BYTES = 16 << 20
_PACK_BYTES = 1 << 20
_HASHES = 1 << 64
_TEXT = {str}


@dataclass(frozen=True)
class RowRules:
    """How a row is read and who it is.

    Attributes:
        dialects: Candidates in the order they are asked; the first that recognises the row reads it.
        names: Standard field -> the user's column that stands for it.
        required: Standard fields a row must have: what the agent is given.
        id: Column that identifies the row instead of its input.
        sample: Share of rows in (0, 1] that are evaluated, by hash.
    """

    dialects: tuple[Dialect, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    id: str | None = None
    sample: float | None = None

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        """The rows that a row of the dataset holds: itself alone in most dialects.

        Raises:
            RowError: The row cannot be read in its dialect.
        """
        for dialect in self._splitting:
            if dialect.recognises(row):
                return dialect.rows(row)
        return [row]

    @cached_property
    def _splitting(self) -> tuple[Dialect, ...]:
        return tuple(dialect for dialect in self.dialects if dialect.splits)

    def read(self, row: dict[str, Json]) -> tuple[str, dict[str, Json]]:
        """(instance_id without ordinal, standard fields found elsewhere than under their name) of a row.

        Raises:
            RowError: The row lacks what the agent is given, or cannot be read in its dialect.
        """
        for dialect in self.dialects:  # the last one recognises every row
            if dialect.recognises(row):
                break
        else:
            raise RowError("unknown_dialect", "no dialect recognises the row")
        fields = dialect.fields(row)
        for name, column in self.names.items():
            if column in row:
                fields[name] = row[column]
        for name in self.required:
            if _get(name, fields, row) is None:
                shown = ", ".join(sorted(row)) or "no columns"
                raise RowError(f"missing_{name}", f"the row has no {name!r}; it has {shown}"[:1000])
        return self._identity(dialect, fields, row), fields

    def _identity(self, dialect: Dialect, fields: dict[str, Json], row: dict[str, Json]) -> str:
        if self.id is not None:
            value = row.get(self.id)
            if value is None:
                raise RowError("missing_id", f"the row has no {self.id!r}, which dataset.id names")
            return _hashed({"id": value})
        given: dict[str, Json] = {}
        for spelling, name in _spellings(dialect.inputs):
            if (spelling in row or spelling in fields) and name not in given:
                given[name] = _get(name, fields, row)
        if "conversation" in given and is_conversation(given["conversation"]):
            given["conversation"] = said(given["conversation"])
        return _hashed(given or row)

    def keeps(self, instance_id: str) -> bool:
        """Whether a row is in the sample; depends on its id alone."""
        return self.sample is None or selection_hash(instance_id) < self.sample * _HASHES


def selection_hash(instance_id: str) -> int:
    """64 bits of an id that `sample` and `limit` choose by; independent of those that choose the shard."""
    return int(instance_id[16:32], 16)


def position(instance_id: str, ranges: int) -> int:
    """Which of `ranges` equal ranges of the id's hash (a power of two, at most 2**32) an id falls into."""
    return int(instance_id[:8], 16) * ranges >> 32


def canonical(value: Json) -> bytes:
    """JSON bytes that are the same for equal values: keys sorted, 1.0 written as 1."""
    return _sorted(_integral(value))


def _integral(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_integral(v) for v in value]
    if isinstance(value, dict):
        return {k: _integral(v) for k, v in value.items()}
    return value


@cache
def _spellings(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(spelling, name) for every spelling of each name."""
    return tuple((spelling, name) for name in names for spelling in (name, *ALIASES.get(name, ())))


def _hashed(given: dict[str, Json]) -> str:
    return hashlib.sha256(_sorted(given) if {*map(type, given.values())} == _TEXT else canonical(given)).hexdigest()[
        :32
    ]


def _sorted(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _get(name: str, fields: Mapping[str, Json], row: Mapping[str, Json]) -> Json:
    value = fields.get(name, row.get(name))
    if value is None:
        for alias in ALIASES.get(name, ()):
            value = fields.get(alias, row.get(alias))
            if value is not None:
                break
    return value


@dataclass
class Normalize(beam.PTransform):
    """PCollection[RowBlock] -> rows: PCollection[(shard, packed instances)], rejected: Rejected, facts: RunFacts.

    Every shard gets at least one value, an empty one as a marker, unless no file has any rows.

    Attributes:
        rules: How rows are read.
        shards: Shards they are keyed by.
        limit: Rows of the dataset to keep at most.
        bulk: Whether the stages after it only score recorded answers.
        needs: What rows need of judges, counted where a budget bounds it.
    """

    rules: RowRules
    shards: int
    limit: int | None = None
    bulk: bool = False
    needs: Needs | None = None

    def expand(self, input_or_inputs: Any) -> Any:
        step = beam.ParDo(_Normalize(self.rules, self.shards, self.limit, self.bulk, self.needs))
        typed = step.with_output_types(tuple[int, bytes], rejected=Rejected, facts=RunFacts)
        return input_or_inputs | "ReadRow" >> typed.with_outputs("rejected", "facts", main="rows")


class _Normalize(beam.DoFn):
    def __init__(self, rules: RowRules, shards: int, limit: int | None, bulk: bool, needs: Needs | None) -> None:
        self.rules, self.shards, self.limit, self.bulk, self.needs = rules, shards, limit, bulk, needs

    def setup(self) -> None:
        self.packing = Background()
        if self.bulk:
            relax_collector()

    def teardown(self) -> None:
        self.packing.close()

    def start_bundle(self) -> None:
        deque(self.packing.rest(), maxlen=0)  # of a bundle that failed
        self.held: defaultdict[int, bytearray] = defaultdict(_opened)
        self.total = 0
        self.facts = RunFacts()
        self.picks: list[int] = []
        self.first = False

    def process(self, element: RowBlock) -> Iterator[Any]:
        facts, rules = self.facts, self.rules
        self.first |= element.range == 0
        facts.lines[(element.file, element.range)] = element.lines
        refused, taken = len(element.rejected), []
        for rejected in element.rejected:
            yield TaggedOutput("rejected", rejected)
        for line, row in element.rows:
            try:
                taken += [(each, *rules.read(each)) for each in rules.rows(row)]
            except RowError as error:
                refused += 1
                yield TaggedOutput("rejected", _rejected(element, line, row, error))
        facts.rejected += refused
        if rules.sample is not None:
            taken = [found for found in taken if rules.keeps(found[1])]
        self._take(taken)
        while self.total >= _HELD_BYTES:
            self._flush(max(self.held, key=lambda shard: len(self.held[shard])))
            yield from self.packing.ready()
        counters.add("rows_read", len(taken))
        counters.add("rows_rejected", refused)

    def _take(self, found: Sequence[tuple[dict[str, Json], str, dict[str, Json]]]) -> None:
        facts, held, shards, size = self.facts, self.held, self.shards, 0
        for row, instance_id, fields in found:
            packed = pack_row(instance_id, row, fields)
            size += len(packed)
            joined = held[position(instance_id, shards)]
            joined += packed
            joined += b","
        self.total += size + len(found)
        facts.rows += len(found)
        facts.bytes += size
        facts.see([row for row, _, _ in found])
        if self.needs is not None:
            for row, instance_id, fields in found:
                counts = self.needs.of(Instance(instance_id, row, fields))
                facts.asked = [a + b for a, b in zip(facts.asked, counts, strict=True)]
        if self.limit is not None:
            self.picks += [selection_hash(instance_id) for _, instance_id, _ in found]
            if len(self.picks) > 2 * self.limit + 1024:
                self.picks = smallest(self.picks, self.limit)

    def _flush(self, shard: int) -> None:
        held = self.held.pop(shard)
        self.total -= len(held) - 1
        self.packing.submit(_packed, shard, held)

    def finish_bundle(self) -> Iterator[Any]:
        for shard in sorted(self.held):
            self._flush(shard)
        for packed in self.packing.rest():
            yield WindowedValue(packed, 0, (GlobalWindow(),))
        if self.first:  # the bundle that reads the head of a file brings the markers of all shards
            for shard in range(self.shards):
                yield WindowedValue((shard, b""), 0, (GlobalWindow(),))
        if self.limit is not None:
            self.facts.picks = smallest(self.picks, self.limit)
        yield TaggedOutput("facts", WindowedValue(self.facts, 0, (GlobalWindow(),)))


def _opened() -> bytearray:
    """A JSON list to which rows are added, each with a comma; as bytes of their own they would cost twice the time."""
    return bytearray(b"[")


def _packed(shard: int, rows: bytearray) -> tuple[int, bytes]:
    rows[-1:] = b"]"
    return shard, compress(rows)


def _rejected(block: RowBlock, line: int, row: dict[str, Json], error: RowError) -> Rejected:
    raw = orjson.dumps(row).decode()[:1000]
    return Rejected(block.file, block.range, line, error.code, error.message, raw)


def relax_collector() -> None:
    """Lets a step that makes rows in bulk outrun Python's cyclic collector, which would rescan them all."""
    gc.set_threshold(200_000, 50, 50)


def names_of(columns: Mapping[str, Any]) -> dict[str, str]:
    """Standard field -> user's column, from the config's `columns`."""
    return {c.as_: column for column, c in columns.items() if c.as_ is not None}


def auto_dialects(found: Sequence[Dialect], plain: Dialect) -> tuple[Dialect, ...]:
    """All dialects but `plain` in the order given, then `plain`, which recognises everything."""
    return (*(d for d in found if d is not plain), plain)
