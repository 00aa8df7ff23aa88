"""ADK's criteria that need no model, and the figures that it reports of every run (google-adk 2.13).

A criterion scores every turn of a conversation, and a case is the mean of its turns. `details` has the scores of the
turns under "turns" (a number, or null for a turn without a score). A row without a conversation is one turn. Scenarios
have no expectations, so criteria that need them are `not_applicable`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ...schemas.conversation import pair_turns
from ...schemas.instance import Example, Instance, Invocation, Turn
from ...schemas.result import Score, ScoreColumn
from ...schemas.values import mean
from .. import registry
from ._inputs import MISSING_TURNS
from .base import Metric, ScoringBatch, register

Turns = tuple[tuple[Turn, Turn | None], ...]


@dataclass(frozen=True)
class TurnMean(Metric):
    """Base of the criteria: the mean of another metric's scores over the turns of a conversation."""

    inputs: ClassVar[tuple[str, ...]] = ("response",)
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    missing: ClassVar[str] = ""

    def score(self, example: Example) -> Score:
        return self.score_batch(ScoringBatch([example])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        """Scores all turns of the batch at once."""
        singles: list[Example] = []
        places: list[list[int | None] | Score] = []
        for example, turns in zip(batch.examples, batch.turns(), strict=True):
            if example.instance.get("scenario") is not None and example.instance.get("conversation") is None:
                places.append(Score(status="not_applicable"))
                continue
            if any(actual is None for _, actual in turns):
                places.append(MISSING_TURNS)
                continue
            ones = [self._one(example, expected, actual) for expected, actual in turns if actual is not None]
            places.append([None if one is None else len(singles) + i for i, one in _number_present(ones)])
            singles += [one for one in ones if one is not None]
        found = self._each.score_batch(ScoringBatch(singles)) if singles else ScoreColumn([])
        return ScoreColumn.of([p if isinstance(p, Score) else self._mean(p, found) for p in places])

    @property
    @abstractmethod
    def _each(self) -> Metric:
        """The metric that scores one turn."""

    @abstractmethod
    def _one(self, example: Example, expected: Turn, actual: Turn) -> Example | None:
        """Converts a turn to an example; returns `None` if the turn has no expectation."""

    def _mean(self, places: Sequence[int | None], found: ScoreColumn) -> Score:
        scores = [None if i is None else found.at(i) for i in places]
        broken = next((s for s in scores if s is not None and s.value is None), None)
        if broken is not None:
            return Score(status=broken.status, error=broken.error)
        values = [None if s is None else s.value for s in scores]
        known = [v for v in values if v is not None]
        if not known:
            return Score.skipped(f"missing_{self.missing}", f"no turn of the row has a {self.missing}")
        return Score(mean(known), details={"turns": values})


def _number_present(ones: Sequence[Example | None]) -> list[tuple[int, Example | None]]:
    """Pairs each example with the number of examples before it that are not `None`."""
    count, found = 0, []
    for one in ones:
        found.append((count, one))
        count += one is not None
    return found


@register("metric", "adk/tool_trajectory_avg_score")
@register("metric", "tool_trajectory_avg_score")
@dataclass(frozen=True)
class ToolTrajectoryAvgScore(TurnMean):
    """Share of turns with the expected tool calls, in [0, 1]; higher is better.

    Calls are compared as in google-adk: names and args by Python's `==` (1 == 1.0 == True), and a call without args
    differs from a call with {}. A turn without expectations in the eval set expects no calls.

    Attributes:
        match_type: EXACT (the same calls in order), IN_ORDER (the actual calls include them in order) or ANY_ORDER.
        ignore_args: Compare only names.
    """

    match_type: Literal["EXACT", "IN_ORDER", "ANY_ORDER"] = "EXACT"
    ignore_args: bool = False
    inputs: ClassVar[tuple[str, ...]] = ()
    missing: ClassVar[str] = "reference_trajectory"

    @property
    def _each(self) -> Metric:
        part = registry.find("metric", "trajectory_match")
        options = {"match_type": self.match_type, "ignore_args": self.ignore_args, "profile": "adk"}
        return registry.build(part, options, "tool_trajectory_avg_score")

    def _one(self, example: Example, expected: Turn, actual: Turn) -> Example | None:
        trajectory = expected.trajectory
        if trajectory is None and expected.trajectory_error is None:
            if example.instance.get("conversation") is None:
                return None
            trajectory = ()
        reference = expected.trajectory_error and "{" if trajectory is None else trajectory
        return _make_row({"reference_trajectory": reference}, actual)


@register("metric", "adk/response_match_score")
@register("metric", "response_match_score")
@dataclass(frozen=True)
class ResponseMatchScore(TurnMean):
    """ROUGE-1 F1 of the final and the expected response, averaged over turns, in [0, 1]; higher is better.

    Words are split and stemmed as in google-adk (metric response_match). Two things differ from google-adk: turns
    without an expected response do not count, where google-adk scores them 0, and thoughts are not part of a response.
    Needs nltk.

    Attributes:
        empty_reference: Compare turns without an expected response with an empty one, as google-adk does; they score 0.
    """

    empty_reference: bool = False

    missing: ClassVar[str] = "reference"

    def __post_init__(self) -> None:
        _ = self._each

    @property
    def _each(self) -> Metric:
        return registry.build(registry.find("metric", "response_match"), {}, "response_match_score")

    def _one(self, example: Example, expected: Turn, actual: Turn) -> Example | None:
        reference = "" if expected.response is None and self.empty_reference else expected.response
        return None if reference is None else _make_row({"reference": reference}, actual)


def _make_row(fields: dict[str, Any], actual: Turn) -> Example:
    call = Invocation(
        response=actual.response or "",
        predicted_trajectory=actual.trajectory,
        trajectory_error=actual.trajectory_error,
    )
    return Example(Instance("", fields), call)


@dataclass(frozen=True)
class TurnFigure(Metric):
    """Base of the figures that ADK reports of every run: the mean over turns."""

    inputs: ClassVar[tuple[str, ...]] = ()
    best: ClassVar[float | None] = 0.0
    words: ClassVar[str] = ""

    def score(self, example: Example) -> Score:
        actual = [turn for _, turn in pair_turns(example) if turn is not None]
        values = [self._value(turn) for turn in actual]
        known = [v for v in values if v is not None]
        if not known:
            return Score.skipped("not_reported", f"the answer does not say {self.words}")
        return Score(mean(known), details={"turns": values})

    @abstractmethod
    def _value(self, turn: Turn) -> float | None: ...


@register("metric", "adk/tool_call_count_v1")
@register("metric", "tool_call_count_v1")
@dataclass(frozen=True)
class ToolCallCount(TurnFigure):
    """Mean number of tool calls per turn; lower is better."""

    words: ClassVar[str] = "which tools were called"

    def _value(self, turn: Turn) -> float | None:
        return None if turn.trajectory is None else float(len(turn.trajectory))


@register("metric", "adk/inference_call_count_v1")
@register("metric", "inference_call_count_v1")
@dataclass(frozen=True)
class InferenceCallCount(TurnFigure):
    """Mean number of model calls per turn; lower is better."""

    words: ClassVar[str] = "how often models were called"

    def _value(self, turn: Turn) -> float | None:
        count = (turn.extra or {}).get("inference_calls")
        return None if count is None else float(count)


@register("metric", "adk/token_usage_v1")
@register("metric", "token_usage_v1")
@dataclass(frozen=True)
class TokenUsage(TurnFigure):
    """Mean number of tokens per turn, input plus output; lower is better."""

    words: ClassVar[str] = "how many tokens were used"

    def _value(self, turn: Turn) -> float | None:
        usage = turn.usage
        if usage is None or (usage.input_tokens is None and usage.output_tokens is None):
            return None
        return float((usage.input_tokens or 0) + (usage.output_tokens or 0))


@register("metric", "adk/invocation_duration_v1")
@register("metric", "invocation_duration_v1")
@dataclass(frozen=True)
class InvocationDuration(TurnFigure):
    """Mean seconds per turn; lower is better."""

    words: ClassVar[str] = "how long the turns took"
    measured: ClassVar[bool] = True

    def _value(self, turn: Turn) -> float | None:
        return turn.latency_in_seconds
