"""The steps of the worst_slices table: a sample of the instances meets in one place, see statistics/worst_slices.py."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import apache_beam as beam
import numpy as np
import orjson
from apache_beam.pvalue import AsSingleton

from ..schemas.batch import compress, decompress
from ..schemas.findings import WORST_SLICES
from ..schemas.identity import HASHES, input_id
from ..schemas.result import ScoredBatch
from ..schemas.run_folder import SLICES
from ..schemas.tables import json_text, table
from ..schemas.values import mean
from .facts import DatasetStats
from .runtime.gathering import Gather
from .statistics.permutation import key_of
from .statistics.slice_columns import describe_example, slice_columns
from .statistics.slices import MetricFacts
from .statistics.worst_slices import find_worst, losses_of, worst_slice_rows
from .write import WrittenFile, write_table
from .writers.base import Writer

SAMPLE = 20_000
"""Instances that are looked at, more or less; of larger datasets a sample, by hash of the ids."""
COLUMNS = 200
"""Columns of the dataset that are looked at, the first by name. Pairs of columns are looked at, too."""
CELLS = 1_000_000
"""Values of them that are looked at, more or less: one worker holds them all."""


@dataclass
class FindWorstSlices(beam.PTransform):
    """PCollection[ScoredBatch] -> PCollection[WrittenFile], one file.

    Attributes:
        facts: Singleton side input.
        metrics: The metrics to look at.
        limit: Most rows of the dataset.
        output: Folder of the run.
        writer: Writer of the format.
    """

    facts: AsSingleton
    metrics: tuple[MetricFacts, ...]
    limit: int | None
    output: str
    writer: Writer

    def expand(self, input_or_inputs: beam.PCollection[ScoredBatch]) -> beam.PCollection[WrittenFile]:
        """Wires the steps: a sample of each batch, all in one place, one file."""
        sample = beam.FlatMap(self._sample, self.facts).with_output_types(bytes)
        write = beam.Map(self._write).with_output_types(WrittenFile)
        return (input_or_inputs | "Sample" >> sample,) | Gather(bytes, b"") | "WriteSlices" >> write  # type: ignore[return-value]  (`|` gives a PValue)

    def _sample(self, batch: ScoredBatch, facts: DatasetStats) -> Iterator[bytes]:
        names = frozenset(sorted(facts.columns)[:COLUMNS])
        cells = len(names) + len(self.metrics) + 1
        wanted = min(SAMPLE, CELLS // cells + 1)
        below = HASHES * wanted // max(facts.kept(self.limit), wanted)
        rows = list(sample_batch(batch, [f.name for f in self.metrics], names, below))
        if rows:
            yield compress(orjson.dumps(rows))

    def _write(self, sampled: tuple[int, Iterable[bytes]]) -> WrittenFile:
        rows = [row for part in sampled[1] if part for row in orjson.loads(decompress(part))]
        rows.sort(key=lambda row: row[:2])
        found = [{**one, **_as_text(one)} for one in self._find(rows)] if rows else []
        name, records = f"{SLICES}{self.writer.ending}", [table(found, WORST_SLICES)] if found else []
        return write_table(SLICES, name, records, WORST_SLICES, self.output, self.writer)

    def _find(self, rows: list[list[Any]]) -> list[dict[str, Any]]:
        matrix = np.array([scores for *_, scores in rows], float).reshape(len(rows), len(self.metrics))
        scores = {f.name: matrix[:, i] for i, f in enumerate(self.metrics)}
        losses = {f.name: losses_of(scores[f.name], f.better, f.best) for f in self.metrics}
        tested = np.array([hash_ & 1 for hash_, *_ in rows], bool)
        found = find_worst(slice_columns([values for _, _, values, _ in rows]), scores, losses, tested)
        return worst_slice_rows(found, [id_ for _, id_, *_ in rows])


def sample_batch(batch: ScoredBatch, metrics: list[str], names: Collection[str], below: int) -> Iterator[list[Any]]:
    """Yields (hash, id, values, scores) of the instances whose hash is below a bound; scores are means of trials.

    The values are those of the columns with these names, and of the answer.

    Instances of the same input have the same hash: they are no evidence for each other.
    """
    columns = [batch.scores[name].values for name in metrics]
    ids = [example.instance.instance_id for example in batch.examples]
    firsts = [i for i, id_ in enumerate(ids) if not i or id_ != ids[i - 1]]
    for first, end in pairwise([*firsts, len(ids)]):
        hash_ = key_of(input_id(ids[first]))
        if hash_ < below:
            scores = [_mean(column[first:end]) for column in columns]
            yield [hash_, ids[first], describe_example(batch.examples[first], names), scores]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return mean(known) if known else None


def _as_text(row: dict[str, Any]) -> dict[str, str]:
    return {name: json_text(row[name]) for name in ("slice", "examples")}
