"""Examples become scored batches: every metric on every row, nothing dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np

from ..schemas.batch import Batch
from ..schemas.instance import Example
from ..schemas.result import Score, ScoreColumn, ScoredBatch
from .metrics.base import Metric, ScoringBatch, guarded


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
    shared: dict[tuple[tuple[str, ...], bool], tuple[ScoringBatch, list[int], dict[int, Score]]] = {}
    scores: dict[str, ScoreColumn] = {}
    for use in metrics:
        key = (use.metric.inputs, use.metric.sees_failures)
        if key not in shared:
            shared[key] = _ready(batch.rows, *key)
        ready, places, skipped = shared[key]
        column = _scored(use.metric, ready) if places else ScoreColumn([])
        if skipped:
            column = _spread(column, places, skipped, len(batch.rows))
        if float32:
            column.values = [None if v is None else float(np.float32(v)) for v in column.values]
        scores[use.name] = column
    return ScoredBatch(batch.rows, scores, batch.part, batch.columns)


def _ready(
    examples: Sequence[Example], inputs: tuple[str, ...], sees_failures: bool
) -> tuple[ScoringBatch, list[int], dict[int, Score]]:
    ready, places, skipped = [], [], {}
    for i, example in enumerate(examples):
        reason = _missing(example, inputs, sees_failures)
        if reason is None:
            ready.append(example)
            places.append(i)
        else:
            skipped[i] = reason
    return ScoringBatch(ready), places, skipped


def _missing(example: Example, inputs: tuple[str, ...], sees_failures: bool) -> Score | None:
    if not sees_failures and not example.invocation.answered:
        code = "agent_failed" if example.invocation.status == "failed" else example.invocation.status
        return Score.skipped(code, f"the agent gave no answer ({example.invocation.error_type or code})")
    for name in inputs:
        if example.get(name) is None and not (name == "predicted_trajectory" and example.invocation.trajectory_error):
            return Score.skipped(f"missing_{name}", f"the row has no {name}")
    return None


def _scored(metric: Metric, batch: ScoringBatch) -> ScoreColumn:
    try:
        return metric.score_batch(batch)
    except Exception:  # a row that breaks the batch path must not take its neighbours along
        return ScoreColumn.of([guarded(metric, example) for example in batch.examples])


def _spread(column: ScoreColumn, places: list[int], skipped: dict[int, Score], size: int) -> ScoreColumn:
    spread = ScoreColumn([None] * size)
    for at, place in enumerate(places):
        spread.values[place] = column.values[at]
    for name in ("status", "errors", "labels", "explanations", "confidences", "details"):
        getattr(spread, name).update({places[at]: value for at, value in getattr(column, name).items()})
    for place, score in skipped.items():
        spread.put(place, score)
    return spread
