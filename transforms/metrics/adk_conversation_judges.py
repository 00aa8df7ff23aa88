"""ADK's criteria on whole conversations, and those that ADK asks Vertex AI (google-adk 2.13), for any judge.

A conversation is judged once, with all its turns and tool calls, and the score is that of its last turn; the earlier
turns have none. The prompts are evalbeam's own: scores may differ from those of Vertex AI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.conversation import pair_turns
from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score
from ..judging.panel import PanelSlot, Rule, Vote, find_unasked
from ..judging.shapes import TEXT, object_of, one_of
from ..runtime.dialogue import run_together
from ._judged import make_rating, read_score
from ._judged_rubrics import RubricJudge, read_rubric
from ._judged_turns import TurnJudge, list_steps, read_setting
from .base import register

_MISSING_TURNS = Score.failed("missing_turns", "the answer has fewer turns than the conversation")
VALID = object_of(reasoning=TEXT, is_valid=one_of("valid", "invalid"))
_FULL = 4
"""Highest rating of a conversation; the score is the rating's share of it."""


def _list_turns(example: Example) -> list[Turn] | None:
    """Returns the turns of an answer; `None` if there are fewer than expected."""
    turns = [actual for _, actual in pair_turns(example) if actual is not None]
    return turns if turns and len(turns) == len(pair_turns(example)) else None


def _show(turns: Sequence[Turn]) -> list[dict[str, Json]]:
    return [{"turn": i, "user": t.prompt, "steps": list_steps(t), "agent": t.response} for i, t in enumerate(turns, 1)]


@dataclass(frozen=True, kw_only=True)
class ConversationJudge(TurnJudge):
    """Base of criteria that rate a whole conversation from 0 to 4; the score is the share of 4."""

    samples: int = 1

    @property
    def rule(self) -> Rule:
        return Rule(self.aggregate, None)

    def judged(self, example: Example) -> Judging:
        turns = _list_turns(example)
        if turns is None:
            return _MISSING_TURNS
        values = {**read_setting(example), "conversation": _show(turns)}
        score = yield from self.poll(self.prompts[0], make_rating(*range(_FULL + 1)), values, _read_share)
        return score if find_unasked([score]) else self.case([*[None] * (len(turns) - 1), score])

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        raise NotImplementedError("the conversation is judged as a whole")


def _read_share(value: Any, slot: PanelSlot) -> Vote:
    return Vote(float(value["score"]) / _FULL, value["explanation"])


@register("metric", "adk/multi_turn_task_success_v1")
@dataclass(frozen=True, kw_only=True)
class MultiTurnTaskSuccessV1(ConversationJudge):
    """How far the user's goals were reached at the end of the conversation, in [0, 1]; higher is better.

    A judge decides, where ADK calls Vertex AI.
    """

    prompt: ClassVar[str] = "adk/multi_turn_task_success"


@register("metric", "adk/multi_turn_trajectory_quality_v1")
@dataclass(frozen=True, kw_only=True)
class MultiTurnTrajectoryQualityV1(ConversationJudge):
    """How good the agent's way through the conversation was, in [0, 1]; higher is better.

    A judge decides, where ADK calls Vertex AI.
    """

    prompt: ClassVar[str] = "adk/multi_turn_trajectory_quality"


@register("metric", "adk/multi_turn_tool_use_quality_v1")
@dataclass(frozen=True, kw_only=True)
class MultiTurnToolUseQualityV1(ConversationJudge):
    """How well the agent used its tools in the conversation, in [0, 1]; higher is better.

    A judge decides, where ADK calls Vertex AI.
    """

    prompt: ClassVar[str] = "adk/multi_turn_tool_use_quality"


@register("metric", "adk/response_evaluation_score")
@dataclass(frozen=True, kw_only=True)
class ResponseEvaluationScore(TurnJudge):
    """Coherence of the final responses, a rating in [1, 5], averaged over turns; higher is better.

    A judge decides, where ADK calls Vertex AI.
    """

    samples: int = 1

    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)
    prompt: ClassVar[str] = "rapid/coherence"
    expecting: ClassVar[bool] = True

    @property
    def rule(self) -> Rule:
        return Rule(self.aggregate, None)

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        return self.poll(self.prompts[0], make_rating(1, 2, 3, 4, 5), {"prediction": actual.response or ""}, read_score)


@register("metric", "adk/rubric_based_multi_turn_trajectory_quality_v1")
@dataclass(frozen=True, kw_only=True)
class RubricBasedMultiTurnTrajectoryQualityV1(RubricJudge):
    """Share of rubrics that the agent's conduct meets over the whole conversation, in [0, 1]; higher is better.

    Rubrics of cases and turns count only if their type is TRAJECTORY_QUALITY.
    """

    prompt: ClassVar[str] = "adk/rubrics_of_trajectory"
    kind: ClassVar[str] = "TRAJECTORY_QUALITY"

    def judged(self, example: Example) -> Judging:
        turns = _list_turns(example)
        if turns is None:
            return _MISSING_TURNS
        own = [*(example.instance.get("rubrics") or ()), *(r for t, _ in pair_turns(example) for r in t.rubrics)]
        named = [read_rubric(r) for r in (*self.rubrics, *(r for r in own if r.get("type") == self.kind))]
        if not named:
            return self.case([None])
        values = {**read_setting(example), "conversation": _show(turns)}
        score = yield from self.rate(dict(named), values, len(named))
        return score if find_unasked([score]) else self.case([*[None] * (len(turns) - 1), score])

    def values(self, example: Example, actual: Turn) -> dict[str, Json]:
        raise NotImplementedError("the conversation is judged as a whole")


@register("metric", "adk/per_turn_user_simulator_quality_v1")
@dataclass(frozen=True, kw_only=True)
class PerTurnUserSimulatorQualityV1(TurnJudge):
    """Share of a simulated user's messages that keep to the scenario, in [0, 1]; higher is better.

    The first message must be the scenario's; a judge decides on the others and on the end of the conversation, and a
    wrong end fails the last message. A tie of votes counts as invalid. It applies to scenarios only.

    Attributes:
        stop_signal: The text with which the user ends a conversation.
    """

    stop_signal: str = "</finished>"

    prompt: ClassVar[str] = "adk/user_simulator_quality"

    def judged(self, example: Example) -> Judging:
        scenario: Any = example.instance.get("scenario")
        turns = _list_turns(example)
        if scenario is None:
            return Score(status="not_applicable")
        if turns is None:
            return _MISSING_TURNS
        first = Score(float(turns[0].prompt.strip() == str(scenario["starting_prompt"]).strip()))
        said = [*[t.prompt for t in turns[1:]], self.stop_signal]
        judgings = [self._judge(scenario, turns[: i + 1], message) for i, message in enumerate(said)]
        *others, end = yield from run_together(judgings)
        scores = [first, *others]
        if open_ := find_unasked([*others, end]):
            return open_
        if end.value == 0.0:
            scores[-1] = end
        scored = self.case(scores)
        if scored.value is None or any(s.value is None for s in scores):
            return next((Score(status="error", error=s.error) for s in scores if s.value is None), scored)
        return scored

    def _judge(self, scenario: Any, before: Sequence[Turn], message: str) -> Judging:
        values: dict[str, Json] = {
            "plan": scenario.get("conversation_plan"),
            "persona": scenario.get("user_persona") or "none",
            "stop_signal": self.stop_signal,
            "history": [{"user": t.prompt, "agent": t.response} for t in before],
            "message": message,
        }
        return self.poll(self.prompts[0], VALID, values, _read_valid)

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        raise NotImplementedError("the conversation is judged as a whole")


def _read_valid(value: Any, slot: PanelSlot) -> Vote:
    return Vote(float(value["is_valid"] == "valid"), value["reasoning"])
