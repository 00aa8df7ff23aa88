"""What an agent is, and how its answer is read.

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
    "chunks_of",
    "invocation_of",
    "is_address",
    "loaded",
    "read_answer",
    "register",
    "usage_of",
    "with_turns",
]

Ask: TypeAlias = Callable[[Json, str], Any]
"""(what the agent is given, idempotency key) -> raw answer; a coroutine function, or a function that may block."""

ANSWER = ("response", "predicted_trajectory", "retrieved_context", "usage", "latency_in_seconds")
"""Keys of an answer that become columns of their own."""
ENGINE = re.compile(r"projects/[^/{}]+/locations/([a-z0-9-]+)/reasoningEngines/[^/{}]+")
"""Resource name of a Vertex AI Agent Engine; its location."""

_ALLOWED = (
    "text, or a mapping with response (text) and any of predicted_trajectory, retrieved_context, usage, "
    "latency_in_seconds, turns, trace"
)
_READ = (*ANSWER, "turns")
_CONTENT = ("content", "page_content", "text", "chunk_text")
_SOURCE = ("doc_uri", "uri", "source", "url")


class InvalidAnswer(AgentError):
    """The agent returned something that is no answer; it is not asked again."""


class _Answers(ABC):
    """Where the answers to rows come from: a live `Agent`, or a `Recording`."""

    @classmethod
    def claims(cls, target: Any) -> bool:
        """Whether a target is plainly an agent of this type, so that `agent.type` need not be said."""
        return False

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """Standard fields a row must have."""

    @property
    def whole_row(self) -> bool:
        """Whether the agent is given the whole row instead of its prompt."""
        return False


class Recording(_Answers):
    """Base of those whose answers are in the rows already: no call is made."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def recall(self, instance: Instance) -> Invocation:
        """The recorded answer of a row."""


class Agent(_Answers):
    """Base of all agents that are called."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ("prompt",)

    def request(self, instance: Instance) -> Json:
        """What the agent is given of a row, where that is neither its prompt nor the whole row; else `None`."""
        return None

    @abstractmethod
    def connect(self) -> Ask:
        """Makes the client, once in each worker process; may raise, which ends the run.

        The returned callable raises what went wrong with a call; other packages' exception types are understood by
        their names and HTTP statuses.
        """

    def read(self, raw: Any) -> Any:
        """The raw answer as text or a mapping with the keys of an answer; the default takes it as it is."""
        return raw


def is_address(target: Any) -> bool:
    """Whether a target is found over the network: no module holds it."""
    return isinstance(target, str) and (
        target.startswith(("http://", "https://")) or ENGINE.fullmatch(target) is not None
    )


def loaded(target: Any) -> Any:
    """The object a target stands for: itself, or what `"module:name"` names.

    Raises:
        ConfigError: There is no such object.
    """
    if target is None:
        raise ConfigError("the agent needs a target", where="agent.target", allowed='"module:name" or an object')
    return load_object(target, "agent.target") if isinstance(target, str) else original(target)


def read_answer(raw: Any, max_bytes: int) -> dict[str, Json]:
    """A raw answer as JSON with the keys of an answer, `extra` holding all others.

    Numbers, texts and containers of Python, NumPy, pydantic and dataclasses become JSON; what cannot is named.

    Args:
        raw: Text, or a mapping (or pydantic model, or dataclass) with at least `response` or `predicted_trajectory`.
        max_bytes: Size of the answer's JSON at most.

    Raises:
        InvalidAnswer: It is something else, is too large, or has a value of a wrong type.
    """
    if isinstance(raw, str):
        _check_size(len(raw), max_bytes)
        answer: Json = {"response": raw}
    elif raw is None or isinstance(raw, (bool, int, float, bytes, list, tuple, set)):
        raise InvalidAnswer(f"the agent returned {_named(raw)} (allowed: {_ALLOWED})")
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
        raise InvalidAnswer(f"the agent returned {_named(raw)} (allowed: {_ALLOWED})")
    return _checked(answer)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidAnswer(f"the agent's answer has {size} bytes of JSON (allowed: max_answer_bytes {max_bytes})")


def _checked(answer: dict[str, Json]) -> dict[str, Json]:
    found = {k: v for k, v in answer.items() if k in _READ and v is not None}
    if found.keys().isdisjoint(("response", "predicted_trajectory", "turns")):
        keys = ", ".join(sorted(map(str, answer))[:10]) or "no keys"
        why = "null as its response" if "response" in answer else f"no response; it has {keys}"
        raise InvalidAnswer(f"the agent's answer has {why} (allowed: {_ALLOWED})")
    response, latency = found.get("response"), found.get("latency_in_seconds")
    if isinstance(response, (bool, int, float)):
        raise InvalidAnswer(f"the agent's response is {_named(response)} (allowed: text or a JSON object)")
    if latency is not None and not _is_latency(latency):
        raise InvalidAnswer(f"the agent's latency_in_seconds is {_named(latency)} (allowed: a number >= 0)")
    try:
        turns_in(found.get("turns"))
    except RowError as error:
        raise InvalidAnswer(f"the agent's answer: {error.message}") from None
    extra = {k: v for k, v in answer.items() if k not in _READ and v is not None}
    return {**found, "extra": extra} if extra else found


def invocation_of(outcome: Outcome) -> Invocation:
    """What a call's outcome says of the agent's run; its value is what `read_answer` made."""
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
    return with_turns(invocation, turns_in(answer.get("turns")))


def with_turns(invocation: Invocation, turns: tuple[Turn, ...] | None) -> Invocation:
    """The invocation of a conversation: what it does not say as a whole follows from its turns."""
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
    """(tool calls, why they could not be read); both `None` where nothing is there."""
    if value is None:
        return None, None
    try:
        return parse_trajectory(value), None
    except RowError as error:
        return None, error.message


def chunks_of(value: Json) -> tuple[Chunk, ...] | None:
    """Retrieved passages of a text, or of a list of texts or mappings (content or page_content or text; doc_uri)."""
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


def _named(value: Any) -> str:
    return "None" if value is None else type(value).__name__
