"""The step that scores examples: every metric on every row, and no row is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import apache_beam as beam

from ..schemas.batch import Batch
from ..schemas.instance import Example
from ..schemas.result import ScoreColumn, ScoredBatch
from .metrics._inputs import ConfiguredMetric, Inputs, round_scores, scatter
from .metrics.base import Metric, ScoringBatch, score_safely
from .runtime import counters


@dataclass
class ScoreExamples(beam.PTransform):
    """PCollection[Batch[Example]] -> PCollection[ScoredBatch], one for one."""

    metrics: tuple[ConfiguredMetric, ...]
    float32: bool = False

    def expand(self, input_or_inputs: beam.PCollection[Batch[Example]]) -> beam.PCollection[ScoredBatch]:
        step = beam.Map(score_examples, self.metrics, self.float32).with_output_types(ScoredBatch)
        return input_or_inputs | "Score" >> step  # type: ignore[return-value]  (`|` gives a PValue)


def score_examples(batch: Batch[Example], metrics: Sequence[ConfiguredMetric], float32: bool = False) -> ScoredBatch:
    """Scores all examples of a batch by all metrics.

    A row whose agent failed, or that lacks an input, is skipped with the reason; metrics with the same inputs share
    one `ScoringBatch`.

    Args:
        batch: Examples of one part, in order.
        metrics: The metrics in the order of their columns.
        float32: Round scores to float32 (`compat.float32`).
    """
    inputs = Inputs(batch.rows)
    scores: dict[str, ScoreColumn] = {}
    for use in metrics:
        ready, places, skipped = inputs.ready(use.metric)
        column = _scored(use.metric, ready) if places else ScoreColumn([])
        if skipped:
            column = scatter(column, places, skipped, len(batch.rows))
        scores[use.name] = round_scores(column) if float32 else column
    counters.add("rows_scored", len(batch.rows))
    return ScoredBatch(batch.rows, scores, batch.part, batch.columns)


def _scored(metric: Metric, batch: ScoringBatch) -> ScoreColumn:
    try:
        return metric.score_batch(batch)
    except Exception:  # one row that breaks the batch path must not fail the others
        return ScoreColumn.of([score_safely(metric, example) for example in batch.examples])
