"""ADK's criteria that need no model, and what it reports of every run (google-adk 2.13).

A criterion scores every turn of a conversation; a case is the mean of its turns, which `details` keeps under "turns" (a
number, or null where a turn has no score). A row without a conversation is one turn. On a scenario there is nothing to
compare with: the criteria that need expectations are `not_applicable`.
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
from .base import Metric, ScoringBatch, register

Turns = tuple[tuple[Turn, Turn | None], ...]


@dataclass(frozen=True)
class TurnMean(Metric):
    """Base of the criteria: the mean, over a conversation's turns, of what another metric says of each of them."""

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
                places.append(Score.failed("missing_turns", "the answer has fewer turns than the conversation"))
                continue
            ones = [self._one(example, expected, actual) for expected, actual in turns if actual is not None]
            places.append([None if one is None else len(singles) + i for i, one in _numbered(ones)])
            singles += [one for one in ones if one is not None]
        found = self._each.score_batch(ScoringBatch(singles)) if singles else ScoreColumn([])
        return ScoreColumn.of([p if isinstance(p, Score) else self._mean(p, found) for p in places])

    @property
    @abstractmethod
    def _each(self) -> Metric:
        """What scores one turn."""

    @abstractmethod
    def _one(self, example: Example, expected: Turn, actual: Turn) -> Example | None:
        """A turn as a row of its own; `None` where the turn says nothing to compare with."""

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


def _numbered(ones: Sequence[Example | None]) -> list[tuple[int, Example | None]]:
    """Each with the number of those before it that are there."""
    count, found = 0, []
    for one in ones:
        found.append((count, one))
        count += one is not None
    return found


@register("metric", "adk/tool_trajectory_avg_score")
@register("metric", "tool_trajectory_avg_score")
@dataclass(frozen=True)
class ToolTrajectoryAvgScore(TurnMean):
    """Share of the turns whose tool calls are the expected ones, in [0, 1]; higher is better.

    Calls are compared as google-adk does: names and args as Python compares them (1 == 1.0 == True), and a call
    without args is not a call with {}. A turn of which the eval set says nothing expects no calls.

    Attributes:
        match_type: EXACT (the same calls in order), IN_ORDER (they are among the actual ones, in order) or ANY_ORDER.
        ignore_args: Compare names only.
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
        return _row({"reference_trajectory": reference}, actual)


@register("metric", "adk/response_match_score")
@register("metric", "response_match_score")
@dataclass(frozen=True)
class ResponseMatchScore(TurnMean):
    """Mean over the turns of ROUGE-1 F1 between the final and the expected response, in [0, 1]; higher is better.

    Words are cut and stemmed as google-adk does (metric response_match). Turns without an expected response are left
    out, where google-adk scores them 0; thoughts are no part of a response, as they are there. Needs nltk.
    """

    missing: ClassVar[str] = "reference"

    def __post_init__(self) -> None:
        _ = self._each

    @property
    def _each(self) -> Metric:
        return registry.build(registry.find("metric", "response_match"), {}, "response_match_score")

    def _one(self, example: Example, expected: Turn, actual: Turn) -> Example | None:
        return None if expected.response is None else _row({"reference": expected.response}, actual)


def _row(fields: dict[str, Any], actual: Turn) -> Example:
    call = Invocation(
        response=actual.response or "",
        predicted_trajectory=actual.trajectory,
        trajectory_error=actual.trajectory_error,
    )
    return Example(Instance("", fields), call)


@dataclass(frozen=True)
class TurnFigure(Metric):
    """Base of what ADK reports of every run: a figure of each turn, and their mean; no criterion."""

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
    """Calls of tools in a turn, on average; lower is better."""

    words: ClassVar[str] = "which tools were called"

    def _value(self, turn: Turn) -> float | None:
        return None if turn.trajectory is None else float(len(turn.trajectory))


@register("metric", "adk/inference_call_count_v1")
@register("metric", "inference_call_count_v1")
@dataclass(frozen=True)
class InferenceCallCount(TurnFigure):
    """Calls of models in a turn, on average; lower is better."""

    words: ClassVar[str] = "how often models were called"

    def _value(self, turn: Turn) -> float | None:
        count = (turn.extra or {}).get("inference_calls")
        return None if count is None else float(count)


@register("metric", "adk/token_usage_v1")
@register("metric", "token_usage_v1")
@dataclass(frozen=True)
class TokenUsage(TurnFigure):
    """Tokens of a turn, input and output, on average; lower is better."""

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
    """Seconds of a turn, on average; lower is better."""

    words: ClassVar[str] = "how long the turns took"
    measured: ClassVar[bool] = True

    def _value(self, turn: Turn) -> float | None:
        return turn.latency_in_seconds
