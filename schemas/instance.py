"""Rows: an instance of the dataset, the invocation of the agent on it, and the example of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .json import Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an agent.

    Attributes:
        tool_name: Name of the tool, case-sensitive.
        tool_input: Arguments by name; `{}` if the call had none. `None` only if the source tells nothing about
            arguments (the `adk` profile distinguishes that from `{}`; everything else treats it as `{}`).
    """

    tool_name: str
    tool_input: Json


Trajectory: TypeAlias = tuple[ToolCall, ...]
"""Tool calls in the order they were made."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One retrieved passage: its text and the address of its document, if known."""

    content: str
    doc_uri: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call used; `None` if the provider did not report them (never 0 for unknown).

    `model` is the model that used them, if the answer names it.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None

    @classmethod
    def total(cls, parts: Iterable[Usage | None]) -> Usage | None:
        """Sums the tokens of several calls; a count that one call does not report is unknown in the sum.

        A sum of the known counts would be mistaken for the total. `None` if nothing is known or there are no calls.
        The model is that of all calls, if they agree.
        """
        known = [p or cls() for p in parts]
        given, made = [p.input_tokens for p in known], [p.output_tokens for p in known]
        total = cls(_sum(given), _sum(made), known[0].model if len({p.model for p in known}) == 1 else None)
        return None if total.input_tokens is None and total.output_tokens is None else total


def _sum(counts: list[int | None]) -> int | None:
    known = [c for c in counts if c is not None]
    return sum(known) if known and len(known) == len(counts) else None


@dataclass(frozen=True, slots=True)
class Step:
    """One intermediate step of an agent between a message of the user and the final response.

    Attributes:
        kind: "text" (intermediate text), "call" (tool call), "result" (output of the tool) or "other" (a reply of the
            model without any of these, kept for its usage).
        author: Name of the agent.
        value: The text, the tool's input, or its output.
        tool_name: Name of the tool of a call or result.
        id: Id that a call and its result share, if the source tells it.
        extra: Further fields of the source (model_version, usage_metadata, grounding_metadata of ADK).
    """

    kind: Literal["text", "call", "result", "other"]
    author: str = ""
    value: Json = None
    tool_name: str | None = None
    id: str | None = None
    extra: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a conversation: the user's message, and what the agent did or is expected to do.

    Attributes:
        prompt: Text of the user's message.
        response: Text of the final response; `None` if there is none.
        trajectory: Tool calls in order; `None` if unknown.
        steps: Intermediate steps, calls included, in order; empty if unknown.
        content: The user's complete message if it is more than text (a Content of Google's GenAI API).
        rubrics: Properties required of this turn's answer, each `{rubric_id, rubric_content: {text_property}, type}`;
            only in expected turns.
        usage: Tokens of all model calls, if known.
        latency_in_seconds: Duration of the turn, if measured.
        trajectory_error: Why the tool calls could not be parsed; `None` if they could, or there are none.
        extra: Further fields of the source (`invocation_id` of ADK).
    """

    prompt: str
    response: str | None = None
    trajectory: Trajectory | None = None
    steps: tuple[Step, ...] = ()
    content: Json = None
    rubrics: tuple[Json, ...] = ()
    usage: Usage | None = None
    latency_in_seconds: float | None = None
    trajectory_error: str | None = None
    extra: dict[str, Json] | None = None


RECORDED_TRIAL = "dataset.trial"
"""The field that holds the number of a recorded trial."""
ALIASES: Mapping[str, tuple[str, ...]] = {
    "prompt": ("instruction",),
    "instruction": ("prompt",),
    "response": ("prediction",),
    "prediction": ("response",),
    "baseline_model_response": ("baseline_prediction",),
    "baseline_prediction": ("baseline_model_response",),
}
"""Synonyms of inputs: a dataset may use either name."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One normalised dataset row.

    Attributes:
        instance_id: 32 hexadecimal digits of the sha256 of the row's canonical input, then "-1", "-2" ... if several
            rows have the same input.
        row: The dataset's own columns, values as read, without top-level nulls (a null equals a missing column).
        fields: Standard fields that the dialect or the `columns:` map read from columns of other names, and the number
            of a recorded trial.
    """

    instance_id: str
    row: dict[str, Json]
    fields: dict[str, Json] = field(default_factory=dict)

    def get(self, name: str) -> Json:
        """Returns the value of a standard field or a dataset column; `None` if there is none.

        The lookup order is: the dialect's fields, the row, then both under the synonyms of `ALIASES`.
        """
        row, fields = self.row, self.fields
        value = fields.get(name, row.get(name)) if fields else row.get(name)
        if value is None:
            for alias in ALIASES.get(name, ()):
                value = fields.get(alias, row.get(alias)) if fields else row.get(alias)
                if value is not None:
                    break
        return value

    @property
    def trial(self) -> int | None:
        """The number of the recorded trial; `None` if the dataset does not number any."""
        number = self.fields.get(RECORDED_TRIAL)
        return number if isinstance(number, int) else None


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of an agent on an instance, live or recorded.

    Attributes:
        status: "ok", "failed" (the call was made and gave no answer), "not_called" or "over_budget".
        response: Final answer, text or the JSON value of a recorded row; `None` if there is none.
        predicted_trajectory: Tool calls made; `None` if the agent does not report them.
        retrieved_context: Passages the agent retrieved; `None` if it does not report them.
        latency_in_seconds: Duration of the decisive attempt, without queueing and backoff; `None` for a failed call and
            for a recording without it.
        error_type: Name of the error of a failed call, e.g. "TimeoutError".
        error_message: Text of that error, without addresses and durations.
        attempts: Calls made for this row, 0 for recorded answers.
        usage: Tokens, if known.
        extra: Anything else that the agent returned (its `trace`, for example).
        trajectory_error: Why predicted_trajectory could not be parsed; `None` if it could, or there is none.
        turns: The turns of a conversation; `None` for a row of a single turn. With turns, `response` is that of the
            last turn, and `predicted_trajectory` holds the calls of all turns.
    """

    status: str = "ok"
    response: Json = None
    predicted_trajectory: Trajectory | None = None
    retrieved_context: tuple[Chunk, ...] | None = None
    latency_in_seconds: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    attempts: int = 0
    usage: Usage | None = None
    extra: dict[str, Json] | None = None
    trajectory_error: str | None = None
    turns: tuple[Turn, ...] | None = None

    @property
    def answered(self) -> bool:
        """True if there is an answer to score."""
        return self.status == "ok"


FROM_INVOCATION: Mapping[str, str] = {
    "response": "response",
    "prediction": "response",
    "predicted_trajectory": "predicted_trajectory",
    "retrieved_context": "retrieved_context",
}
"""Metric inputs that come from the agent, and the attribute of an invocation that holds each."""


@dataclass(frozen=True, slots=True)
class Example:
    """An instance and one invocation of the agent on it: the input of metrics."""

    instance: Instance
    invocation: Invocation
    trial: int = 0

    def get(self, name: str) -> Json:
        """Returns the value of a metric input: the invocation's for `FROM_INVOCATION`, else the instance's."""
        attribute = FROM_INVOCATION.get(name)
        return getattr(self.invocation, attribute) if attribute else self.instance.get(name)
