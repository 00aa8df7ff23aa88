"""The words of judging: what a judge is asked, and what it answered."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .calls import NOT_MADE
from .instance import Usage
from .json import Json
from .result import Score, ScoreError

PROMPTS = "prompts"
EVALUATE_INSTANCES = "requests of evaluateInstances"
CHECK_GROUNDING = "requests of Check Grounding"
"""What questions are: prompts for a model, or the requests of a service, which nobody else answers."""


class Message(NamedTuple):
    """One message to a judge.

    Attributes:
        role: "system", "user" or "assistant".
        content: Its text.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a judge. Equal ones to an equal judge have one place in the journal and are one request of a batch.

    Attributes:
        messages: What the judge reads.
        schema: JSON schema of the answer, of the kind `transforms/judging/shapes.py` makes.
        judge: Which judge is asked, by its name in the configuration.
        vote: Tells apart votes that the same judge gives on the same question, counted from 0.
        data: What in the messages is judged, not said by us; a verdict is never read from it.
        parts: The questions of several metrics it is made of, where it is a joint one; none otherwise.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Json]
    judge: str = "default"
    vote: int = 0
    data: tuple[str, ...] = ()
    parts: tuple[Ask, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a question.

    Attributes:
        value: A JSON value that fits the question's schema; `None` where there is an error.
        error: Why there is no value. Codes: "refused", "truncated", "invalid_verdict" (the model answered, but gave no
            verdict), "judge_failed" (the call failed), "not_called", "over_budget" (it was not made).
        usage: Tokens of the call, where known.
        batched: Whether it came by a batch, which providers have prices of their own for.
    """

    value: Json = None
    error: ScoreError | None = None
    usage: Usage | None = None
    batched: bool = False

    @property
    def open(self) -> bool:
        """Whether the call was not made, so that a later start of the run may still make it."""
        return self.error is not None and self.error.code in NOT_MADE


Judging: TypeAlias = Generator[list[Ask], Sequence[Answer], Score]
"""One row judged by one metric, without I/O: yields questions, is sent their answers in order, as often as it likes,
and returns the score."""


class Reply(NamedTuple):
    """What a judge model returned.

    Attributes:
        text: Its words; read by the strict parser where `value` is `None`.
        value: The structured answer, where the model's interface gives one.
        usage: Tokens, where known.
        finish: "stop", "length" (it ran into its limit) or "refused" (blocked by the model or its provider).
    """

    text: str = ""
    value: Json = None
    usage: Usage | None = None
    finish: str = "stop"
