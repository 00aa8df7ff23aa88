"""Types of judging: questions to judges and their answers."""

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
"""Kinds of questions: prompts for any model, or the requests of one service, which no other judge can answer."""


class Message(NamedTuple):
    """One message to a judge.

    Attributes:
        role: "system", "user" or "assistant".
        content: Text of the message.
    """

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a judge; equal questions to an equal judge share one journal entry and one request of a batch.

    Attributes:
        messages: The prompt.
        schema: JSON schema of the answer, of the kind `transforms/judging/shapes.py` makes.
        judge: Name of the judge in the configuration.
        vote: Number of the vote among those of the same judge on the same question, counted from 0.
        data: The judged texts within the messages; a verdict is never read from them.
        parts: The questions of several metrics that a joint question combines; empty otherwise.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Json]
    judge: str = "default"
    vote: int = 0
    data: tuple[str, ...] = ()
    parts: tuple[Ask, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        value: A JSON value that satisfies the question's schema; `None` if there is an error.
        error: Why there is no value. Codes: "refused", "truncated", "invalid_verdict" (the model answered, but gave no
            verdict), "judge_failed" (the call failed), "not_called", "over_budget" (it was not made).
        usage: Tokens of the call, if known.
        batched: Whether the answer came through a batch interface, which has its own prices.
    """

    value: Json = None
    error: ScoreError | None = None
    usage: Usage | None = None
    batched: bool = False

    @property
    def open(self) -> bool:
        """True if the call was not made, so that a later start of the run may still make it."""
        return self.error is not None and self.error.code in NOT_MADE


Judging: TypeAlias = Generator[list[Ask], Sequence[Answer], Score]
"""Judging of one row by one metric, without I/O: a generator that yields lists of questions, is sent their answers in
order, any number of times, and returns the score."""


class Reply(NamedTuple):
    """The reply of a judge model.

    Attributes:
        text: The text of the reply; parsed strictly if `value` is `None`.
        value: The structured answer, if the model's interface returns one.
        usage: Tokens, if known.
        finish: "stop", "length" (the token limit was reached) or "refused" (blocked by the model or its provider).
    """

    text: str = ""
    value: Json = None
    usage: Usage | None = None
    finish: str = "stop"
