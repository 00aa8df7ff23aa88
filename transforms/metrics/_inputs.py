"""Which examples of a batch a metric can score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...schemas.instance import Example
from ...schemas.result import Score, ScoreColumn
from .base import Metric, ScoringBatch


@dataclass(frozen=True)
class ConfiguredMetric:
    """A metric in a run: the name its columns carry, and the metric with its parameters."""

    name: str
    metric: Metric


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
