"""Scorers of MLflow 3 on whole conversations, for any judge; names and values are MLflow's, the prompts evalbeam's own.

A conversation is a session of traces, whose score stands in the row of its first trace, or a row of several turns.
Other rows are skipped (`missing_session`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ...schemas.errors import RowError
from ...schemas.formats.databricks import guidelines_of
from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.names import CATEGORIES
from ...schemas.result import Score
from ..judging.panel import PanelSlot, Vote, find_unasked
from ..judging.prompts import Prompt, load_prompt
from ..judging.shapes import TEXT, object_of, one_of
from ..runtime.dialogue import run_together
from ._inputs import explain_unanswered
from ._judged import RATING, JudgedMetric, read_rating
from ._judged_conversations import NO_SESSION, Conversation, has_conversation, read_conversation
from .base import register

_FRUSTRATION = CATEGORIES["mlflow/user_frustration"]
_SCORES = {word: score for score, word in _FRUSTRATION.items()}
_CATEGORY = object_of(rationale=TEXT, rating=one_of(*_SCORES))


@dataclass(frozen=True, kw_only=True)
class SessionJudge(JudgedMetric):
    """Base of the scorers of conversations."""

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True
    sessions: ClassVar[bool] = True
    sees_failures: ClassVar[bool] = True  # the first trace of a session may have failed
    prompt: ClassVar[str]

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return (load_prompt(self.prompt),)

    def judged(self, example: Example) -> Judging:
        if not has_conversation(example):
            return NO_SESSION if example.invocation.answered else explain_unanswered(example)
        found = read_conversation(example)
        return found if isinstance(found, Score) else (yield from self.rate(found))

    @abstractmethod
    def rate(self, found: Conversation) -> Judging:
        """Rates a conversation."""


@dataclass(frozen=True, kw_only=True)
class RatedSession(SessionJudge):
    """Base of the scorers that rate a conversation in one question, yes or no."""

    def rate(self, found: Conversation) -> Judging:
        return self.poll(self.prompts[0], RATING, {**found.show(), **self.values}, read_rating)

    @property
    def values(self) -> dict[str, Json]:
        """Values of the prompt besides the conversation."""
        return {}


_JUDGES = (
    (
        "conversation_completeness",
        "Completeness of a conversation: 1 if everything that the user asked for was dealt with at its end, else 0.",
    ),
    ("conversational_safety", "Safety of a conversation: 1 if no answer of the agent is harmful, else 0."),
    (
        "conversational_tool_call_efficiency",
        "Efficiency of the tool calls of a conversation: 1 if none is clearly redundant or needless, else 0.",
    ),
    (
        "conversational_role_adherence",
        "Adherence of the agent to its role: 1 if no answer leaves the role that its instructions give it, else 0.",
    ),
)
"""(task, description for users) of the scorers that differ in their prompt alone."""

for _task, _description in _JUDGES:
    _name = "".join(map(str.capitalize, _task.split("_")))
    _made = type(_name, (RatedSession,), {"prompt": f"mlflow/{_task}", "__doc__": _description, "__module__": __name__})
    # Workers unpickle metrics by module and name, so the class must be an attribute of this module.
    globals()[_name] = register("metric", f"mlflow/{_task}")(dataclass(frozen=True, kw_only=True)(_made))


@register("metric", "mlflow/conversational_guidelines")
@dataclass(frozen=True, kw_only=True)
class ConversationalGuidelines(RatedSession):
    """Adherence of a conversation to guidelines: 1 if every answer of the agent follows all of them, else 0.

    Attributes:
        guidelines: The guidelines, a list of texts.
    """

    guidelines: list[str] = field(default_factory=list)

    prompt: ClassVar[str] = "mlflow/conversational_guidelines"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            given = guidelines_of(list(self.guidelines), "")
        except RowError as error:
            raise ValueError(error.message) from None
        if not any(given.values()):
            raise ValueError("guidelines is empty (allowed: a list of texts)")

    @property
    def values(self) -> dict[str, Json]:
        return {"guidelines": list(self.guidelines)}


@register("metric", "mlflow/user_frustration")
@dataclass(frozen=True, kw_only=True)
class UserFrustration(SessionJudge):
    """Frustration of the user in a conversation: 1 (none), 0.5 (resolved at the end) or 0 (unresolved).

    The details have MLflow's `value`: none, resolved or unresolved.
    """

    binary: ClassVar[bool] = False
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence", "details")
    prompt: ClassVar[str] = "mlflow/user_frustration"

    def rate(self, found: Conversation) -> Judging:
        score = yield from self.poll(self.prompts[0], _CATEGORY, found.show(), _read_category)
        if score.value is None:
            return score
        votes: Any = score.details or {}
        return replace(score, details={"value": _FRUSTRATION.get(score.value), **votes})


def _read_category(value: Any, slot: PanelSlot) -> Vote:
    return Vote(_SCORES[value["rating"]], value["rationale"])


@register("metric", "mlflow/knowledge_retention")
@dataclass(frozen=True, kw_only=True)
class KnowledgeRetention(SessionJudge):
    """Retention of what the user said: 1 if no answer forgets, contradicts or distorts earlier turns, else 0.

    Each turn after the first is judged in its own question; the details have `turns` with the rating of each.
    """

    outputs: ClassVar[tuple[str, ...]] = ("explanation", "confidence", "details")
    prompt: ClassVar[str] = "mlflow/knowledge_retention"

    @property
    def joinable(self) -> bool:
        return False

    def rate(self, found: Conversation) -> Judging:
        ends = range(2, len(found.turns) + 1)
        asked = [self.poll(self.prompts[0], RATING, found.show(end), read_rating) for end in ends]
        scores = yield from run_together(asked)
        broken = find_unasked(scores) or next((s for s in scores if s.value is None), None)
        if broken is not None:
            return Score(status=broken.status, error=broken.error)
        return _join_turns(scores)


def _join_turns(scores: Sequence[Score]) -> Score:
    """Joins the scores of the second and later turns: the lowest, with the rationales of the turns that have it."""
    values = [1.0, *(s.value or 0.0 for s in scores)]
    low = min(values)
    told = [f"Turn {i}: {s.explanation}" for i, s in enumerate(scores, 2) if (s.value or 0.0) == low]
    confidence = min((s.confidence or 0.0 for s in scores), default=None)
    details: Json = {"turns": list[Json](values)}
    return Score(low, explanation=" ".join(told) or "No earlier turn.", confidence=confidence, details=details)
