"""The agent type `recorded`: answers that are already in the rows."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ...schemas.conversation import seconds_of, turns_in, usage_of
from ...schemas.errors import RowError
from ...schemas.instance import (
    Instance,
    Invocation,
    Trajectory,
    Turn,
)
from ...schemas.json import Json
from ...schemas.values import json_or_text
from .base import Recording, add_turns, chunks_of, register, trajectory_of

_TOKENS = ("input_tokens", "output_tokens")
_RARE = frozenset(("failure", "retrieved_context", "usage", "latency_in_seconds", "turns", *_TOKENS))
_NO = frozenset(("", "0", "0.0", "false", "no", "none", "null"))

# The constructor of a frozen dataclass would take most of the time of `recall`, so its slots are set directly.
_new = object.__new__
_SETTERS = {f.name: (Invocation.__dict__[f.name].__set__, f.default) for f in fields(Invocation)}
(_put_response, _), (_put_trajectory, _), (_put_error, _) = (
    _SETTERS.pop(name) for name in ("response", "predicted_trajectory", "trajectory_error")
)
_DEFAULTS = tuple(_SETTERS.values())


@register("agent", "recorded")
@dataclass(frozen=True)
class RecordedAgent(Recording):
    """Reads the answer from the row: response, predicted_trajectory, retrieved_context, latency_in_seconds, usage.

    Tokens may also be in the columns input_tokens and output_tokens, and a conversation in `turns`
    (schemas/conversation.py). Lists and objects may be JSON text, as in CSV files and evalbeam's own tables.

    A row is a failed run if its `failure` is true (a boolean, a number, or a text other than "", "0", "0.0", "false",
    "no", "none" and "null"), or if it has no response, trajectory or turns. Its error_type and error_message are kept.
    """

    def recall(self, instance: Instance) -> Invocation:
        get = instance.get
        response, calls = get("response"), get("predicted_trajectory")
        rare = not (_RARE.isdisjoint(instance.row) and _RARE.isdisjoint(instance.fields))
        if rare and (failure := get("failure")) is not None and _is_true(failure):
            return _make_failed(instance, "RecordedFailure", "the row says that the call failed")
        turns = _read_turns(get("turns")) if rare else None
        if response is None and calls is None and turns is None:
            return _make_failed(instance, "MissingAnswer", "the row has neither response nor predicted_trajectory")
        trajectory, why = (None, None) if calls is None else trajectory_of(calls)
        if not rare:
            return _make_answered(response, trajectory, why)
        context, latency = get("retrieved_context"), get("latency_in_seconds")
        usage = usage_of(json_or_text(get("usage"))) or usage_of({name: get(name) for name in _TOKENS})
        invocation = Invocation(
            response=response,
            predicted_trajectory=trajectory,
            retrieved_context=None if context is None else chunks_of(_read_passages(context)),
            latency_in_seconds=None if latency is None else seconds_of(latency),
            usage=usage,
            trajectory_error=why,
        )
        return add_turns(invocation, turns)


def _make_answered(response: Json, trajectory: Trajectory | None, why: str | None) -> Invocation:
    call = _new(Invocation)
    for put, value in _DEFAULTS:
        put(call, value)
    _put_response(call, response)
    _put_trajectory(call, trajectory)
    _put_error(call, why)
    return call


def _read_passages(value: Json) -> Json:
    """Decodes passages from JSON text (a CSV cell); any other text is itself a passage."""
    found = json_or_text(value)
    return found if isinstance(found, list) and all(isinstance(p, str | dict) for p in found) else value


def _read_turns(value: Json) -> tuple[Turn, ...] | None:
    try:
        return turns_in(json_or_text(value))
    except RowError:  # an unrelated column of the dataset that happens to be called "turns"
        return None


def _make_failed(instance: Instance, error_type: str, message: str) -> Invocation:
    name, text = instance.get("error_type"), instance.get("error_message")
    return Invocation(
        "failed",
        error_type=name if isinstance(name, str) and name else error_type,
        error_message=text if isinstance(text, str) and text else message,
    )


def _is_true(value: Json) -> bool:
    return value.strip().casefold() not in _NO if isinstance(value, str) else bool(value)
