"""The base classes of criteria on turns; the score of a case is the mean over its turns with a verdict."""

from __future__ import annotations

import statistics
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.conversation import pair_turns, step_out
from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.judging import Judging
from ...schemas.result import Score, ScoreError
from ..judging.joint import run_joint_panel
from ..judging.panel import Rule, Vote, find_unasked
from ..judging.prompts import Prompt, load_prompt
from ..judging.shapes import Schema
from ..runtime.dialogue import run_together
from ._inputs import MISSING_TURNS
from ._judged import JudgedMetric

NOT_TOLD = Vote(error=ScoreError("invalid_verdict", "the judge's answer does not speak of it"))


@dataclass(frozen=True, kw_only=True)
class CaseJudge(JudgedMetric):
    """Base of criteria whose score of a case is the mean over its turns with a score.

    Attributes:
        samples: Number of votes per judge on a question; ADK's `num_samples`.
    """

    samples: int = 5

    inputs: ClassVar[tuple[str, ...]] = ("response",)
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    outputs: ClassVar[tuple[str, ...]] = ("explanation", "details")
    prompt: ClassVar[str]
    missing: ClassVar[str] = "response"
    tie: ClassVar[float | None] = 0.0
    """The score of a tie of votes; `None`: the lower median."""

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return (load_prompt(self.prompt),)

    @property
    def joinable(self) -> bool:
        return False

    @property
    def rule(self) -> Rule:
        return Rule(self.aggregate, self.tie)

    def ask_jointly(self, values: Mapping[str, Json], schema: Schema, read: Any, things: int) -> Any:
        """Runs the panel on several items in one question, see `run_joint_panel`."""
        ask = self.prompts[0].bind(schema, values)
        return run_joint_panel(self.slots, ask, read, things, self.rule)

    def case(self, turns: Sequence[Score | None]) -> Score:
        """Aggregates the scores of the turns to the score of a case."""
        scored = [s for s in turns if s is not None and s.value is not None]
        if not scored:
            error = next((s.error for s in turns if s is not None and s.error is not None), None)
            if error is None:
                return Score.skipped(f"missing_{self.missing}", f"no turn of the row has a {self.missing}")
            return Score(status="error", error=error)
        told = next((s.explanation for s in scored if s.value != 1.0), scored[0].explanation)
        details = {"turns": [s and s.value for s in turns], "judged": [s and _describe(s) for s in turns]}
        return Score(self.mean(scored), explanation=told, details=details)

    def mean(self, turns: Sequence[Score]) -> float:
        """Averages the scores of the turns, exactly as ADK does (`statistics.mean`): a case may be at its threshold."""
        return statistics.mean(s.value or 0.0 for s in turns)


def _describe(score: Score) -> Json:
    if score.error is not None:
        return {"error": {"code": score.error.code, "message": score.error.message}}
    return score.details if score.details is not None else {"explanation": score.explanation}


@dataclass(frozen=True, kw_only=True)
class TurnJudge(CaseJudge):
    """Base of criteria that judges score turn by turn."""

    expecting: ClassVar[bool] = False
    """True if it compares with the expectations of a case; it does not apply to scenarios then."""

    def judged(self, example: Example) -> Judging:
        get = example.instance.get
        if self.expecting and get("scenario") is not None and get("conversation") is None:
            return Score(status="not_applicable")
        turns = pair_answered(example)
        if not turns:
            return MISSING_TURNS
        judgings = [self.turn(example, expected, actual) for expected, actual in turns]
        places = [i for i, judging in enumerate(judgings) if judging is not None]
        scores = yield from run_together([j for j in judgings if j is not None])
        if open_ := find_unasked(scores):
            return open_
        found = dict(zip(places, scores, strict=True))
        return self.case([found.get(i) for i in range(len(judgings))])

    @abstractmethod
    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        """Judges one turn; returns `None` if there is nothing to judge."""


def pair_answered(example: Example) -> list[tuple[Turn, Turn]]:
    """Returns (expected, actual) of every turn; an empty list if the answer has fewer turns than the conversation."""
    turns = pair_turns(example)
    answered = [(expected, actual) for expected, actual in turns if actual is not None]
    return answered if len(answered) == len(turns) else []


def average(scores: Sequence[Score], details: dict[str, Json]) -> Score:
    """Averages the scores that have a value; the explanation is that of the first score of 0, or of the first score."""
    known = [s for s in scores if s.value is not None]
    if not known:
        return Score(status="error", error=scores[0].error)
    told = next((s.explanation for s in known if not s.value), known[0].explanation)
    return Score(statistics.mean(s.value or 0.0 for s in known), explanation=told, details=details)


def join_texts(turn: Turn, with_steps: bool) -> str:
    """Returns the final response of a turn; with `with_steps`, preceded by the intermediate texts."""
    before = [str(s.value) for s in turn.steps if s.kind == "text"] if with_steps else []
    return "\n".join([*before, turn.response] if turn.response else before)


def list_steps(turn: Turn) -> list[dict[str, Json]]:
    """Returns the steps of a turn, or its tool calls if the steps are unknown."""
    if turn.steps or not turn.trajectory:
        return [step_out(s) for s in turn.steps if s.kind != "other" or "grounding_metadata" in (s.extra or ())]
    return [{"kind": "call", "tool_name": c.tool_name, "value": c.tool_input} for c in turn.trajectory]


def read_setting(example: Example) -> dict[str, dict[str, Json]]:
    """Returns the instructions and tools of the agents, as far as the answer has them."""
    details = (example.invocation.extra or {}).get("app_details")
    agents: Mapping[str, Any] = details if isinstance(details, Mapping) else {}
    given = {n: a for n, a in agents.items() if isinstance(a, Mapping)}
    return {
        "instructions": {n: a.get("instructions") or "" for n, a in given.items()},
        "tools": {n: a.get("tool_declarations") or [] for n, a in given.items()},
    }
