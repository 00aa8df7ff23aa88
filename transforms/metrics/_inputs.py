"""Selects the examples of a batch that a metric can score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...schemas.instance import Example
from ...schemas.result import Score, ScoreColumn
from .base import Metric, ScoringBatch

MISSING_TURNS = Score.failed("missing_turns", "the answer has fewer turns than the conversation")


@dataclass(frozen=True)
class ConfiguredMetric:
    """A metric of a run with the name of its columns.

    Attributes:
        name: Name of its columns.
        metric: The metric.
        pass_k: The k of pass^k and pass@k.
        pass_threshold: The score with which a trial passes; `None` for the best one.
    """

    name: str
    metric: Metric
    pass_k: tuple[int, ...] = ()
    pass_threshold: float | None = None


def round_scores(column: ScoreColumn) -> ScoreColumn:
    """Rounds the scores of a column to float32, in place, and returns it."""
    column.values = [None if v is None else float(np.float32(v)) for v in column.values]
    return column


Ready: TypeAlias = tuple[ScoringBatch, list[int], dict[int, Score]]
"""Examples to score, their indices in the batch, and the scores of skipped examples by index."""


class Inputs:
    """Selects the examples that a metric can score, once for all metrics with the same inputs."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.whole = ScoringBatch(examples)
        self.unanswered = {i: explain_unanswered(e) for i, e in enumerate(examples) if e.invocation.status != "ok"}
        self.found: dict[tuple[tuple[str, ...], bool], Ready] = {}

    def ready(self, metric: Metric) -> Ready:
        """Returns the examples to score, their indices, and the scores of skipped examples."""
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
                    if value is None and i not in skipped and not _is_unreadable(examples[i], name):
                        skipped[i] = Score.skipped(f"missing_{name}", f"the row has no {name}")
        if not skipped:
            return self.whole, list(range(len(examples))), skipped
        places = [i for i in range(len(examples)) if i not in skipped]
        return ScoringBatch([examples[i] for i in places]), places, skipped


def explain_unanswered(example: Example) -> Score:
    """Returns the score of a row whose agent gave no answer."""
    call = example.invocation
    code = "agent_failed" if call.status == "failed" else call.status
    return Score.skipped(code, f"the agent gave no answer ({call.error_type or code})")


def _is_unreadable(example: Example, name: str) -> bool:
    """Returns true for a malformed predicted trajectory, which is an error of its metrics instead of a skipped row."""
    return name == "predicted_trajectory" and example.invocation.trajectory_error is not None


def scatter(column: ScoreColumn, places: list[int], skipped: dict[int, Score], size: int) -> ScoreColumn:
    """Builds the column of a whole batch from the scored examples, at `places`, and the skipped ones."""
    whole = ScoreColumn([None] * size)
    for at, place in enumerate(places):
        whole.values[place] = column.values[at]
    for name in ("status", "errors", "labels", "explanations", "confidences", "details", "sums"):
        getattr(whole, name).update({places[at]: value for at, value in getattr(column, name).items()})
    for place, score in skipped.items():
        whole.put(place, score)
    return whole
