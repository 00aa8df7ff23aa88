"""The step after the shuffle: sorts the instances of a shard, numbers equal inputs, and cuts them into batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from ..schemas.batch import MAX_BYTES, MAX_ROWS, Batch, cut_rows, raw_size, unpack
from ..schemas.identity import canonical, position, selection_hash
from ..schemas.instance import RECORDED_TRIAL, Instance
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
        trials: Names of the columns that identify a row and number its recorded trials, if both are configured.
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
    trials: tuple[str, str] | None = None

    def expand(self, input_or_inputs: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[Batch[Instance]]:
        step = _Cut(self)
        cutting = beam.ParDo(step, self.facts).with_output_types(Batch)
        return input_or_inputs | "MeetByShard" >> beam.GroupByKey() | "Cut" >> cutting  # type: ignore[return-value]  (`|` gives a PValue)


class _Cut(beam.DoFn):
    def __init__(self, step: BatchRows) -> None:
        self.shards, self.parts, self.limit, self.allowed = step.shards, step.parts, step.limit, step.allowed
        self.declared, self.bulk, self.rows, self.spill = step.declared, step.bulk, step.rows, step.spill
        self.trials = step.trials

    def setup(self) -> None:
        if self.bulk:
            relax_collector()

    def process(self, element: tuple[int, Iterable[bytes]], facts: DatasetStats) -> Iterator[Batch[Instance]]:
        shard, packed = element[0], [self.spill.fetch(value) for value in element[1]]
        parts = facts.parts(self.parts, self.limit)
        columns = facts.types(self.declared)
        refused = facts.refusal(self.allowed) is not None
        rows = [] if refused else sort_instances((i for value in packed if value for i in unpack(value)), self.trials)
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


def sort_instances(rows: Iterable[Instance], trials: tuple[str, str] | None = None) -> list[Instance]:
    """Sorts instances by id and trial; those with the same input get ordinals in the order of their row's hash.

    Rows with the same input and different numbers of their recorded trial are trials of one instance, without ordinals.

    Args:
        rows: The instances of a shard.
        trials: Names of the columns that identify a row and number its trials, if the configuration names both. Then
            rows that have the same id and trial are failed ones.
    """
    rows = sorted(rows, key=attrgetter("instance_id"))
    if len({row.instance_id for row in rows}) == len(rows):
        return rows
    by_id: dict[str, list[Instance]] = {}
    for row in rows:
        by_id.setdefault(row.instance_id, []).append(row)
    ordered: list[Instance] = []
    for same in by_id.values():
        if len(same) > 1:
            numbers = {r.trial for r in same}
            if len(numbers) == len(same) and None not in numbers:
                same.sort(key=_trial_of)
            else:
                same.sort(key=lambda r: hashlib.sha256(canonical(r.row)).digest())
                same = _refuse_copies(same, *trials) if trials else list(map(_numbered, same, range(len(same))))
                same.sort(key=lambda r: (r.instance_id, _trial_of(r)))
        ordered += same
    return ordered


def _trial_of(row: Instance) -> int:
    return row.trial or 0


def _numbered(row: Instance, ordinal: int) -> Instance:
    """Returns a row with the ordinal that tells it from others with the same input, and without a trial."""
    fields = {name: value for name, value in row.fields.items() if name != RECORDED_TRIAL}
    return Instance(f"{row.instance_id}-{ordinal}" if ordinal else row.instance_id, row.row, fields)


def _refuse_copies(rows: Iterable[Instance], id_column: str, trial_column: str) -> list[Instance]:
    """Returns the rows of an id; those that have their trial in common with others are failed runs with ordinals."""
    by_trial: dict[int, list[Instance]] = {}
    for row in rows:
        by_trial.setdefault(_trial_of(row), []).append(row)
    found: list[Instance] = []
    for copies in by_trial.values():
        if len(copies) == 1:
            found += copies
            continue
        for k, row in enumerate(copies):
            own = f"{id_column!r} {row.row.get(id_column)!r} and {trial_column!r} {row.row.get(trial_column)!r}"
            text = f"{len(copies)} rows have {own[:300]} (dataset.id, dataset.trial); which of them counts is not known"
            failed = {"failure": True, "error_type": "DuplicateTrial", "error_message": text}
            found.append(Instance(_numbered(row, k).instance_id, row.row, {**row.fields, **failed}))
    return found


def cut(
    rows: list[Instance], parts: int, weigh: bool = True, most: int = MAX_ROWS
) -> Iterator[tuple[int, tuple[Instance, ...]]]:
    """Cuts sorted instances into (part, batch): a batch ends with its part, or where `cut_rows` says."""
    groups = groupby(rows, key=lambda r: position(r.instance_id, parts)) if parts > 1 else [(0, rows)][: len(rows)]
    for part, group in groups:
        for batch in cut_rows(list(group), attrgetter("instance_id"), _width if weigh else None, most):
            yield part, tuple(batch)


def _width(row: Instance) -> int:
    return sum([len(v) if type(v) is str else 64 for v in row.row.values()])
