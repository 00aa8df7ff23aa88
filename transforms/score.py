"""Examples become scored batches: every metric on every row, nothing dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np

from ..schemas.batch import Batch
from ..schemas.instance import Example
from ..schemas.result import Score, ScoreColumn, ScoredBatch
from .metrics.base import Metric, ScoringBatch, guarded
from .runtime import counters


@dataclass(frozen=True)
class MetricUse:
    """A metric in a run: the name its columns carry, and the metric with its parameters."""

    name: str
    metric: Metric


@dataclass
class ScoreExamples(beam.PTransform):
    """PCollection[Batch[Example]] -> PCollection[ScoredBatch], one for one."""

    metrics: tuple[MetricUse, ...]
    float32: bool = False

    def expand(self, input_or_inputs: Any) -> Any:
        step = beam.Map(score_examples, self.metrics, self.float32).with_output_types(ScoredBatch)
        return input_or_inputs | "Score" >> step


def score_examples(batch: Batch[Example], metrics: Sequence[MetricUse], float32: bool = False) -> ScoredBatch:
    """All metrics on all examples of a batch.

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
            column = spread(column, places, skipped, len(batch.rows))
        scores[use.name] = rounded(column) if float32 else column
    counters.add("rows_scored", len(batch.rows))
    return ScoredBatch(batch.rows, scores, batch.part, batch.columns)


def rounded(column: ScoreColumn) -> ScoreColumn:
    """The column with its scores rounded to float32."""
    column.values = [None if v is None else float(np.float32(v)) for v in column.values]
    return column


Ready: TypeAlias = tuple[ScoringBatch, list[int], dict[int, Score]]
"""Examples to score, their places in the batch, and why the others are skipped, by place."""


class Inputs:
    """Which examples of a batch a metric can score; the same for all metrics with the same inputs."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.whole = ScoringBatch(examples)
        self.unanswered = {i: _unanswered(e) for i, e in enumerate(examples) if e.invocation.status != "ok"}
        self.found: dict[tuple[tuple[str, ...], bool], Ready] = {}

    def ready(self, metric: Metric) -> Ready:
        """The examples to score, their places in the batch, and why the others are skipped, by place."""
        key = (metric.inputs, metric.sees_failures)
        if key not in self.found:
            self.found[key] = self._find(*key)
        return self.found[key]

    def _find(self, inputs: tuple[str, ...], sees_failures: bool) -> Ready:
        examples = self.whole.examples
        skipped = {} if sees_failures else dict(self.unanswered)
        for name in inputs:
            values = self.whole.column(name)
            if None in values:
                for i, value in enumerate(values):
                    if value is None and i not in skipped and not _unreadable(examples[i], name):
                        skipped[i] = Score.skipped(f"missing_{name}", f"the row has no {name}")
        if not skipped:
            return self.whole, list(range(len(examples))), skipped
        places = [i for i in range(len(examples)) if i not in skipped]
        return ScoringBatch([examples[i] for i in places]), places, skipped


def _unanswered(example: Example) -> Score:
    call = example.invocation
    code = "agent_failed" if call.status == "failed" else call.status
    return Score.skipped(code, f"the agent gave no answer ({call.error_type or code})")


def _unreadable(example: Example, name: str) -> bool:
    """Whether there is a trajectory that could not be read: its metrics score an error, they are not skipped."""
    return name == "predicted_trajectory" and example.invocation.trajectory_error is not None


def _scored(metric: Metric, batch: ScoringBatch) -> ScoreColumn:
    try:
        return metric.score_batch(batch)
    except Exception:  # a row that breaks the batch path must not take its neighbours along
        return ScoreColumn.of([guarded(metric, example) for example in batch.examples])


def spread(column: ScoreColumn, places: list[int], skipped: dict[int, Score], size: int) -> ScoreColumn:
    """The column of a whole batch from that of its places that were scored and the scores of the others."""
    spread = ScoreColumn([None] * size)
    for at, place in enumerate(places):
        spread.values[place] = column.values[at]
    for name in ("status", "errors", "labels", "explanations", "confidences", "details"):
        getattr(spread, name).update({places[at]: value for at, value in getattr(column, name).items()})
    for place, score in skipped.items():
        spread.put(place, score)
    return spread
