"""ADK's criteria on whole conversations, and those that ADK asks Vertex AI (google-adk 2.13), for any judge.

A conversation is judged once, with all its turns and tool calls, and the score is that of its last turn; the earlier
turns have none. The prompts are evalbeam's own: scores may differ from those of Vertex AI.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score
from ..judging.panel import PanelSlot, Vote, find_unasked
from ..judging.shapes import TEXT, object_of, one_of
from ..runtime.dialogue import run_together
from ._inputs import MISSING_TURNS
from ._judged import make_rating, read_score
from ._judged_conversations import Conversation, read_conversation
from ._judged_rubrics import RubricJudge
from ._judged_turns import CaseJudge, TurnJudge, pair_answered
from .base import register

VALID = object_of(reasoning=TEXT, is_valid=one_of("valid", "invalid"))
_FULL = 4
"""Highest rating of a conversation; the score is the rating's share of it."""


@dataclass(frozen=True, kw_only=True)
class ConversationJudge(CaseJudge):
    """Base of criteria that judge a whole conversation at once."""

    sessions: ClassVar[bool] = True

    def judged(self, example: Example) -> Judging:
        found = read_conversation(example)
        if isinstance(found, Score):
            return found
        judging = self.whole(example, found)
        if judging is None:
            return self.case([None])
        score = yield from judging
        return score if find_unasked([score]) else self.case([*[None] * (len(found.turns) - 1), score])

    @abstractmethod
    def whole(self, example: Example, found: Conversation) -> Judging | None:
        """Judges the conversation of a row; returns `None` if there is nothing to judge."""


@dataclass(frozen=True, kw_only=True)
class RatedConversation(ConversationJudge):
    """Base of criteria that rate a whole conversation from 0 to 4; the score is the share of 4."""

    samples: int = 1

    tie: ClassVar[float | None] = None

    def whole(self, example: Example, found: Conversation) -> Judging | None:
        return self.poll(self.prompts[0], make_rating(*range(_FULL + 1)), found.show(), _read_share)


def _read_share(value: Any, slot: PanelSlot) -> Vote:
    return Vote(float(value["score"]) / _FULL, value["explanation"])


@register("metric", "adk/multi_turn_task_success_v1")
@dataclass(frozen=True, kw_only=True)
class MultiTurnTaskSuccessV1(RatedConversation):
    """How far the user's goals were reached at the end of the conversation, in [0, 1]; higher is better.

    A judge decides, where ADK calls Vertex AI.
    """

    prompt: ClassVar[str] = "adk/multi_turn_task_success"


@register("metric", "adk/multi_turn_trajectory_quality_v1")
@dataclass(frozen=True, kw_only=True)
class MultiTurnTrajectoryQualityV1(RatedConversation):
    """How good the agent's way through the conversation was, in [0, 1]; higher is better.

    A judge decides, where ADK calls Vertex AI.
    """

    prompt: ClassVar[str] = "adk/multi_turn_trajectory_quality"


@register("metric", "adk/multi_turn_tool_use_quality_v1")
@dataclass(frozen=True, kw_only=True)
class MultiTurnToolUseQualityV1(RatedConversation):
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
    tie: ClassVar[float | None] = None

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        return self.poll(self.prompts[0], make_rating(1, 2, 3, 4, 5), {"prediction": actual.response or ""}, read_score)


@register("metric", "adk/rubric_based_multi_turn_trajectory_quality_v1")
@dataclass(frozen=True, kw_only=True)
class RubricBasedMultiTurnTrajectoryQualityV1(RubricJudge, ConversationJudge):
    """Share of rubrics that the agent's conduct meets over the whole conversation, in [0, 1]; higher is better.

    Rubrics of cases and turns count only if their type is TRAJECTORY_QUALITY.
    """

    prompt: ClassVar[str] = "adk/rubrics_of_trajectory"
    kind: ClassVar[str] = "TRAJECTORY_QUALITY"

    def whole(self, example: Example, found: Conversation) -> Judging | None:
        rubrics = self.select(example, *(expected for expected, _ in found.turns))
        return self.rate(rubrics, found.show()) if rubrics else None


@register("metric", "adk/per_turn_user_simulator_quality_v1")
@dataclass(frozen=True, kw_only=True)
class PerTurnUserSimulatorQualityV1(CaseJudge):
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
        turns = [actual for _, actual in pair_answered(example)]
        if scenario is None:
            return Score(status="not_applicable")
        if not turns:
            return MISSING_TURNS
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


def _read_valid(value: Any, slot: PanelSlot) -> Vote:
    return Vote(float(value["is_valid"] == "valid"), value["reasoning"])
