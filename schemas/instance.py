"""What a row is: an instance of a dataset, what an agent did with it, and both together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .json import Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool by an agent.

    Attributes:
        tool_name: Name of the tool, case-sensitive.
        tool_input: Arguments by name; `{}` where the call had none. `None` only where the source said nothing at
            all about arguments (the `adk` profile tells that from `{}`; every other reading takes it as `{}`).
    """

    tool_name: str
    tool_input: Json


Trajectory: TypeAlias = tuple[ToolCall, ...]
"""Tool calls in the order they were made."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One retrieved passage: its text and the address of its document, where known."""

    content: str
    doc_uri: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a call consumed; `None` where the provider did not say (never 0 for unknown)."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    @classmethod
    def total(cls, parts: Iterable[Usage | None]) -> Usage | None:
        """Tokens of several calls together: what one of them does not say is unknown of the whole.

        A sum of the known ones would pass for the total. `None` where nothing is known, and of no calls.
        """
        known = [p or cls() for p in parts]
        given, made = [p.input_tokens for p in known], [p.output_tokens for p in known]
        total = cls(_sum(given), _sum(made))
        return None if total == cls() else total


def _sum(counts: list[int | None]) -> int | None:
    known = [c for c in counts if c is not None]
    return sum(known) if known and len(known) == len(counts) else None


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that an agent did between a message of the user and its final response to it.

    Attributes:
        kind: "text" (something it said on the way), "call" (of a tool), "result" (what the tool gave back) or "other"
            (a reply of the model without any of them, kept for its usage).
        author: Name of the agent.
        value: The text, the tool's input, or what the tool gave back.
        tool_name: Name of the tool of a call or result.
        id: What a call and its result share, where the source says so.
        extra: What else the source says of it (model_version, usage_metadata, grounding_metadata of ADK).
    """

    kind: Literal["text", "call", "result", "other"]
    author: str = ""
    value: Json = None
    tool_name: str | None = None
    id: str | None = None
    extra: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange of a conversation: what the user said, and what the agent did or is expected to do.

    Attributes:
        prompt: Text of what the user said.
        response: Text of the final response; `None` where there is none.
        trajectory: Tool calls in order; `None` where nothing is known of them.
        steps: What happened on the way, calls included, in order; empty where nothing is known of it.
        content: The user's message in full where it is more than text (a Content of Google's GenAI API).
        rubrics: Properties that this turn's answer is asked for, each `{rubric_id, rubric_content: {text_property},
            type}`; of expected turns only.
        usage: Tokens of all calls of models, where known.
        latency_in_seconds: Seconds the turn took, where it was measured.
        trajectory_error: Why the tool calls could not be read although something was there.
        extra: What else the source says of the turn (`invocation_id` of ADK).
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


ALIASES: Mapping[str, tuple[str, ...]] = {
    "prompt": ("instruction",),
    "instruction": ("prompt",),
    "response": ("prediction",),
    "prediction": ("response",),
    "baseline_model_response": ("baseline_prediction",),
    "baseline_prediction": ("baseline_model_response",),
}
"""Words that mean the same input: either spelling is accepted in a dataset."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One dataset row, normalised.

    Attributes:
        instance_id: 32 hexadecimal digits of the sha256 of the row's canonical input, then "-1", "-2" ... where the
            same input stands in several rows.
        row: The dataset's own columns, values as read, without top-level nulls (a null and a missing column are the
            same).
        fields: Standard fields that the dialect or the `columns:` map found elsewhere than under their own name.
    """

    instance_id: str
    row: dict[str, Json]
    fields: dict[str, Json] = field(default_factory=dict)

    def get(self, name: str) -> Json:
        """Value of a standard field or a dataset column; `None` where there is none.

        Looked up in the dialect's fields, then in the row, then under the names that mean the same.
        """
        row, fields = self.row, self.fields
        value = fields.get(name, row.get(name)) if fields else row.get(name)
        if value is None and name in ALIASES:
            for alias in ALIASES[name]:
                value = fields.get(alias, row.get(alias))
                if value is not None:
                    break
        return value


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of an agent on an instance; also what a recorded row says of such a run.

    Attributes:
        status: "ok", "failed" (the call was made and gave no answer), "not_called" or "over_budget".
        response: Final answer; `None` where there is none. Text, or the JSON value a recorded row carries.
        predicted_trajectory: Tool calls made; `None` where the agent does not report them.
        retrieved_context: Passages the agent retrieved; `None` where it does not report them.
        latency_in_seconds: Seconds the attempt that counted took, without queueing and backoff; `None` for a failed
            call and where a recording does not say.
        error_type: Name of the error of a failed call, e.g. "TimeoutError".
        error_message: Its text, free of addresses and durations.
        attempts: Calls made for this row, 0 for recorded answers.
        usage: Tokens, where known.
        extra: Anything else the agent returned beside these (its `trace`, for example).
        trajectory_error: Why predicted_trajectory could not be read although something was there.
        turns: What the agent did in each turn of a conversation; `None` for a row of a single turn. Then `response` is
            that of the last turn, and `predicted_trajectory` the calls of all turns.
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
        """Whether there is an answer to score."""
        return self.status == "ok"


FROM_INVOCATION: Mapping[str, str] = {
    "response": "response",
    "prediction": "response",
    "predicted_trajectory": "predicted_trajectory",
    "retrieved_context": "retrieved_context",
}
"""Metric inputs that the agent gives, and the attribute of an invocation that holds them."""


@dataclass(frozen=True, slots=True)
class Example:
    """An instance and one invocation of the agent on it: what metrics see."""

    instance: Instance
    invocation: Invocation
    trial: int = 0

    def get(self, name: str) -> Json:
        """Value of a metric input: what the agent did where the name says so, else the instance's."""
        attribute = FROM_INVOCATION.get(name)
        return getattr(self.invocation, attribute) if attribute else self.instance.get(name)
