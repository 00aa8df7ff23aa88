"""The base classes of agents, and the reading of their answers.

An agent is a frozen dataclass whose fields are the parameters a config may set, registered under a name:

    @register("agent", "echo")
    @dataclass(frozen=True)
    class Echo(Agent):
        '''Answers with the prompt.'''

        def connect(self) -> Ask:
            async def ask(prompt: Json, key: str) -> Json:
                return {"response": prompt}

            return ask
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import orjson

from ...schemas.calls import NOT_MADE, Outcome
from ...schemas.conversation import sum_turns, turns_in, usage_of
from ...schemas.errors import AgentError, ConfigError, RowError
from ...schemas.instance import (
    Chunk,
    Instance,
    Invocation,
    Trajectory,
    Turn,
)
from ...schemas.json import Json
from ...schemas.json_text import NotJson, jsonable
from ...schemas.trajectory import parse_trajectory
from ...schemas.values import quick_json
from ..registry import load_object, register
from ..runtime.local_objects import original

__all__ = [
    "ANSWER",
    "ENGINE",
    "Agent",
    "Ask",
    "InvalidAnswer",
    "Recording",
    "add_turns",
    "chunks_of",
    "invocation_of",
    "is_address",
    "load_target",
    "read_answer",
    "register",
    "usage_of",
]

Ask: TypeAlias = Callable[[Json, str], Any]
"""(input, idempotency key) -> raw answer; a coroutine function, or a function that may block."""

ANSWER = ("response", "predicted_trajectory", "retrieved_context", "usage", "latency_in_seconds")
"""The keys of an answer that become columns."""
ENGINE = re.compile(r"projects/[^/{}]+/locations/([a-z0-9-]+)/reasoningEngines/[^/{}]+")
"""Matches the resource name of a Vertex AI Agent Engine; group 1 is its location."""

_ALLOWED = (
    "text, or a mapping with response (text) and any of predicted_trajectory, retrieved_context, usage, "
    "latency_in_seconds, turns, trace"
)
_READ = (*ANSWER, "turns")
_CONTENT = ("content", "page_content", "text", "chunk_text")
_SOURCE = ("doc_uri", "uri", "source", "url")


class InvalidAnswer(AgentError):
    """The agent returned a value that is not an answer; the call is not retried."""


class _Answers(ABC):
    """Base of `Agent` and `Recording`, the two sources of answers."""

    @classmethod
    def claims(cls, target: Any) -> bool:
        """Returns true if a target is recognisably of this type, so that `agent.type` may be left out."""
        return False

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The standard fields a row must have."""

    @property
    def whole_row(self) -> bool:
        """True if the agent takes the whole row instead of its prompt."""
        return False

    @property
    def model_name(self) -> str | None:
        """The model whose price the tokens of answers have that name none; `None` if it is unknown."""
        return None


class Recording(_Answers):
    """Base of agents whose answers are already in the rows; no call is made."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def recall(self, instance: Instance) -> Invocation:
        """Reads the recorded answer of a row."""


class Agent(_Answers):
    """Base of all agents that are called."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("prompt",)

    def request(self, instance: Instance) -> Json:
        """Builds the agent's input from a row, or returns `None` if the input is the prompt or the whole row."""
        return None

    @abstractmethod
    def connect(self) -> Ask:
        """Creates the client, once per worker process; an exception here ends the run.

        The returned callable raises if a call fails. Exceptions of other packages are classified by their type name
        and HTTP status.
        """

    def read(self, raw: Any) -> Any:
        """Converts a raw answer to text or to a mapping with the keys of an answer; returns it unchanged by default."""
        return raw


def is_address(target: Any) -> bool:
    """Returns true if a target is reached over the network: a URL or the name of an Agent Engine."""
    return isinstance(target, str) and (
        target.startswith(("http://", "https://")) or ENGINE.fullmatch(target) is not None
    )


def load_target(target: Any) -> Any:
    """Returns the target itself, or the object that `"module:name"` refers to.

    Raises:
        ConfigError: The target is missing or does not exist.
    """
    if target is None:
        raise ConfigError("the agent needs a target", where="agent.target", allowed='"module:name" or an object')
    return load_object(target, "agent.target") if isinstance(target, str) else original(target)


def read_answer(raw: Any, max_bytes: int) -> dict[str, Json]:
    """Converts a raw answer to JSON with the keys of an answer; `extra` holds all other keys.

    Values of Python, NumPy, pydantic and dataclasses become JSON.

    Args:
        raw: Text, or a mapping (or pydantic model, or dataclass) with at least one of `response`,
            `predicted_trajectory` and `turns`.
        max_bytes: Maximum size of the answer as JSON, in bytes.

    Raises:
        InvalidAnswer: The answer has another form, is too large, or holds a value of the wrong type or one that
            JSON cannot represent.
    """
    if isinstance(raw, str):
        _check_size(len(raw), max_bytes)
        answer: Json = {"response": raw}
    elif raw is None or isinstance(raw, (bool, int, float, bytes, list, tuple, set)):
        raise InvalidAnswer(f"the agent returned {_type_name(raw)} (allowed: {_ALLOWED})")
    else:
        answer = raw
    try:
        text = jsonable(answer, lenient=frozenset(("trace",)))
    except NotJson as error:
        raise InvalidAnswer(f"the agent's answer is not JSON: {error} (allowed: {_ALLOWED})") from None
    _check_size(len(text), max_bytes)
    try:
        answer = quick_json(text)
    except RowError as error:
        raise InvalidAnswer(f"the agent's answer is not JSON: {error.message}") from None
    if not isinstance(answer, dict):
        raise InvalidAnswer(f"the agent returned {_type_name(raw)} (allowed: {_ALLOWED})")
    return _check_answer(answer)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidAnswer(f"the agent's answer has {size} bytes of JSON (allowed: max_answer_bytes {max_bytes})")


def _check_answer(answer: dict[str, Json]) -> dict[str, Json]:
    found = {k: v for k, v in answer.items() if k in _READ and v is not None}
    if found.keys().isdisjoint(("response", "predicted_trajectory", "turns")):
        keys = ", ".join(sorted(map(str, answer))[:10]) or "no keys"
        why = "null as its response" if "response" in answer else f"no response; it has {keys}"
        raise InvalidAnswer(f"the agent's answer has {why} (allowed: {_ALLOWED})")
    response, latency = found.get("response"), found.get("latency_in_seconds")
    if isinstance(response, (bool, int, float)):
        raise InvalidAnswer(f"the agent's response is {_type_name(response)} (allowed: text or a JSON object)")
    if latency is not None and not _is_latency(latency):
        raise InvalidAnswer(f"the agent's latency_in_seconds is {_type_name(latency)} (allowed: a number >= 0)")
    try:
        turns_in(found.get("turns"))
    except RowError as error:
        raise InvalidAnswer(f"the agent's answer: {error.message}") from None
    extra = {k: v for k, v in answer.items() if k not in _READ and v is not None}
    return {**found, "extra": extra} if extra else found


def invocation_of(outcome: Outcome) -> Invocation:
    """Builds the invocation from a call's outcome, whose value is the result of `read_answer`."""
    if outcome.kind != "ok":
        status = outcome.kind if outcome.kind in NOT_MADE else "failed"
        error, text = outcome.error_type, outcome.error_message
        return Invocation(status, error_type=error, error_message=text, attempts=outcome.attempts)
    answer = outcome.value
    trajectory, why = trajectory_of(answer.get("predicted_trajectory"))
    latency = answer.get("latency_in_seconds")
    invocation = Invocation(
        response=answer.get("response"),
        predicted_trajectory=trajectory,
        retrieved_context=chunks_of(answer.get("retrieved_context")),
        latency_in_seconds=outcome.latency_in_seconds if latency is None else float(latency),
        attempts=outcome.attempts,
        usage=usage_of(answer.get("usage")),
        extra=answer.get("extra"),
        trajectory_error=why,
    )
    return add_turns(invocation, turns_in(answer.get("turns")))


def add_turns(invocation: Invocation, turns: tuple[Turn, ...] | None) -> Invocation:
    """Adds the turns of a conversation; response, trajectory and usage default to those of the turns."""
    if turns is None:
        return invocation
    whole = sum_turns(turns)
    calls, response, usage = invocation.predicted_trajectory, invocation.response, invocation.usage
    return replace(
        invocation,
        turns=turns,
        response=whole["response"] if response is None else response,
        predicted_trajectory=whole["trajectory"] if calls is None else calls,
        usage=usage or whole["usage"],
    )


def trajectory_of(value: Json) -> tuple[Trajectory | None, str | None]:
    """Returns (tool calls, reading error); both are `None` if there is no value."""
    if value is None:
        return None, None
    try:
        return parse_trajectory(value), None
    except RowError as error:
        return None, error.message


def chunks_of(value: Json) -> tuple[Chunk, ...] | None:
    """Reads passages from a text, or from a list of texts or mappings (`content`, `doc_uri` or their synonyms)."""
    if value is None:
        return None
    return tuple(_chunk(v) for v in (value if isinstance(value, (list, tuple)) else [value]))


def _chunk(value: Json) -> Chunk:
    if not isinstance(value, Mapping):
        return Chunk(_text(value))
    content = next((value[k] for k in _CONTENT if value.get(k) is not None), None)
    uri = next((value[k] for k in _SOURCE if value.get(k) is not None), None)
    return Chunk(_text(value) if content is None else _text(content), None if uri is None else _text(uri))


def _is_latency(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 and math.isfinite(value)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _type_name(value: Any) -> str:
    return "None" if value is None else type(value).__name__
