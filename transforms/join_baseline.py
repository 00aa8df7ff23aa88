"""The step that adds the answers of another run, for pairwise metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import apache_beam as beam

from ..schemas.batch import Batch
from ..schemas.instance import ALIASES, Example, Instance
from ..schemas.json import Json
from .io import storage

BASELINE = "baseline_model_response"
JOINED = frozenset((BASELINE, *ALIASES[BASELINE]))
"""Inputs of metrics that the other run provides."""
_KEPT = 4
"""Row groups in memory: a batch is a range of ids, so it needs few of them, and the next batch mostly the same."""
_COLUMNS = ("instance_id", "trial", "status", "response")


@dataclass
class JoinBaseline(beam.PTransform):
    """PCollection[Batch[Example]] -> PCollection[Batch[Example]], one for one, with another run's answers.

    An answer belongs to the example with its instance_id and trial, as `baseline_model_response`. An example without an
    answer in the other run has no baseline, even if the dataset has one: the two sources are never mixed.

    Attributes:
        files: The Parquet files of the other run's instances table, in order. Their rows are sorted by instance_id, so
            a batch, which is a range of ids, needs few row groups, and no shuffle.
    """

    files: tuple[str, ...]

    def expand(self, input_or_inputs: beam.PCollection[Batch[Example]]) -> beam.PCollection[Batch[Example]]:
        return input_or_inputs | "Join" >> beam.ParDo(_Join(self.files)).with_output_types(Batch[Example])  # type: ignore[return-value]  (`|` gives a PValue)


class _Group(NamedTuple):
    """A row group: its file, its number and its first and last id."""

    path: str
    number: int
    first: str
    last: str


@dataclass
class Answers:
    """Reads the answers of a run by instance_id and trial.

    Attributes:
        files: As in `JoinBaseline`.
    """

    files: Sequence[str]
    _groups: list[_Group] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._groups = [group for path in self.files for group in _groups(path)]
        self._read = lru_cache(_KEPT)(_answers)

    def between(self, first: str, last: str) -> dict[tuple[str, int], Json]:
        """Returns the answers to instances in a range of ids, both ends included, and perhaps others."""
        answers: dict[tuple[str, int], Json] = {}
        for group in self._groups:
            if group.first <= last and first <= group.last:
                answers |= self._read(group)
        return answers


class _Join(beam.DoFn):
    def __init__(self, files: tuple[str, ...]) -> None:
        self.files = files

    def setup(self) -> None:
        self.answers = Answers(self.files)

    def process(self, element: Batch[Example]) -> Iterator[Batch[Example]]:
        yield join_answers(element, self.answers)


def join_answers(batch: Batch[Example], answers: Answers) -> Batch[Example]:
    """Returns the batch with the answers of another run."""
    if not batch.rows:
        return batch
    ids = [example.instance.instance_id for example in batch.rows]
    found = answers.between(min(ids), max(ids))
    rows = (_with(example, found.get((example.instance.instance_id, example.trial))) for example in batch.rows)
    return Batch(tuple(rows), batch.part, batch.columns)


def _with(example: Example, answer: Json) -> Example:
    own = example.instance
    fields = {**own.fields, **dict.fromkeys(ALIASES[BASELINE]), BASELINE: answer}
    return Example(Instance(own.instance_id, own.row, fields), example.invocation, example.trial)


def _groups(path: str) -> Iterator[_Group]:
    import pyarrow.parquet as pq

    with storage.opened(path) as stream:
        about = pq.ParquetFile(stream).metadata
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        columns = (group.column(i) for i in range(group.num_columns))
        ids = next(c.statistics for c in columns if c.path_in_schema == "instance_id")
        yield _Group(path, number, ids.min, ids.max)


def _answers(group: _Group) -> dict[tuple[str, int], Json]:
    import pyarrow.parquet as pq

    with storage.opened(group.path) as stream:
        table = pq.ParquetFile(stream).read_row_group(group.number, list(_COLUMNS), use_threads=False)
    rows = zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True)
    return {(i, trial): answer for i, trial, status, answer in rows if status == "ok" and answer is not None}
