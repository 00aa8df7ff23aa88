"""Measurements of every run besides its answers: latency and failure of the agent."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from ...schemas.instance import Example, Invocation
from ...schemas.result import Score, ScoreColumn, ScoreError
from .base import Metric, ScoringBatch, register

_FAILED = ScoreError("agent_failed", "the call of the agent failed")
_UNTIMED = ScoreError("missing_latency_in_seconds", "the recorded answer does not say how long it took")
_FAILURES = {"ok": 0.0, "failed": 1.0}


@dataclass(frozen=True)
class Measurement(Metric):
    """Base of both measurements: a number of the invocation; rows without it are skipped."""

    best: ClassVar[float | None] = 0.0
    sees_failures: ClassVar[bool] = True

    def score(self, example: Example) -> Score:
        value = self._value(example.invocation)
        if value is None:
            return Score(status="skipped", error=_explain(example.invocation))
        return Score(value)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        column = ScoreColumn([self._value(e.invocation) for e in batch.examples])
        for i, value in enumerate(column.values):
            if value is None:
                column.status[i] = "skipped"
                column.errors[i] = _explain(batch.examples[i].invocation)
        return column

    @abstractmethod
    def _value(self, invocation: Invocation) -> float | None: ...


@register("metric", "latency_in_seconds")
@dataclass(frozen=True)
class Latency(Measurement):
    """Seconds of the agent's successful attempt, without queueing, backoff and rate limiting; lower is better.

    Rows without an answer are skipped (code `agent_failed`, or the row's status), and recorded rows without a latency.
    """

    def _value(self, invocation: Invocation) -> float | None:
        return invocation.latency_in_seconds if invocation.status == "ok" else None


@register("metric", "failure")
@dataclass(frozen=True)
class Failure(Measurement):
    """1 if the call of the agent failed, 0 if it returned an answer; lower is better.

    Rows whose agent was not called are skipped.
    """

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True

    def _value(self, invocation: Invocation) -> float | None:
        return _FAILURES.get(invocation.status)


def _explain(invocation: Invocation) -> ScoreError:
    if invocation.status == "ok":
        return _UNTIMED
    return _FAILED if invocation.status == "failed" else ScoreError(invocation.status, "the agent was not called")
