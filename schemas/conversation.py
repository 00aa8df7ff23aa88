"""Conversations as datasets and agents write them, read into turns, and back.

A row of several turns has a field `conversation`, and a recorded or live answer to it a field `turns`: lists of one
object for each turn, in order.

| key | what it is |
|---|---|
| `prompt` | what the user says, text |
| `content` | the user's message in full, where it is more than text |
| `reference`; of an answer `response` | the final response, text |
| `reference_trajectory`; of an answer `predicted_trajectory` | the tool calls, in any form `parse_trajectory` reads |
| `steps` | what happened on the way, `{kind, author, value, tool_name, id}` each |
| `rubrics` | properties that the answer of this turn is asked for |
| `usage`, `latency_in_seconds` | of an answer, where known |

Beside `conversation` a row may have `session` (`{app_name, user_id, session_id, state}`) and `rubrics` of the whole
conversation; instead of it `scenario` (`{starting_prompt, conversation_plan, user_persona}`), for a simulated user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import orjson

from .errors import RowError
from .instance import (
    Example,
    Instance,
    Step,
    Trajectory,
    Turn,
    Usage,
)
from .json import Json
from .trajectory import calls_in, parse_trajectory

_PLAIN = ("content", "latency_in_seconds", "extra")
_MOST = 2**53  # tokens; sums of a conversation stay within 64 bits
_SIGNS = frozenset(("response", "predicted_trajectory", "steps"))


def pair_turns(example: Example) -> tuple[tuple[Turn, Turn | None], ...]:
    """(expected, actual) of every turn of an example; one pair for a row of a single turn.

    An expected turn always has the prompt. What the dataset does not say of it is `None` or empty, as is all of it if
    a simulated user led the conversation. The actual turn is `None` if the agent gave no such turn. Turns are parsed
    anew at each call; a metric takes `ScoringBatch.turns`, which keeps them.
    """
    call, expected = example.invocation, expected_turns(example.instance)
    if call.turns is None and len(expected) == 1 and call.answered:
        text = None if call.response is None else _text(call.response)
        whole = Turn(expected[0].prompt, text, call.predicted_trajectory, usage=call.usage)
        return ((expected[0], whole),)
    pairs = zip_longest(expected, call.turns or ())
    return tuple((given or Turn(actual.prompt), _answering(given, actual)) for given, actual in pairs)


def _answering(given: Turn | None, actual: Turn | None) -> Turn | None:
    """What the agent did in a turn, with what the user said in it where the answer does not repeat that."""
    if given is None or actual is None or actual.prompt or actual.content is not None:
        return actual
    return replace(actual, prompt=given.prompt, content=given.content)


def expected_turns(instance: Instance) -> tuple[Turn, ...]:
    """The turns a row expects: those of its conversation, none of a scenario, else the one of its own columns."""
    conversation = instance.get("conversation")
    if is_conversation(conversation):
        return tuple(_expected(turn) for turn in conversation)
    if instance.get("scenario") is not None:
        return ()
    return (_expected({name: instance.get(name) for name in ("prompt", "reference", "reference_trajectory")}),)


def is_conversation(value: Json) -> bool:
    """Whether a value is a list of turns (and not, for example, a list of messages with roles)."""
    return isinstance(value, list) and bool(value) and all(isinstance(t, Mapping) and "prompt" in t for t in value)


def said(conversation: Sequence[Mapping[str, Json]]) -> list[Json]:
    """What the user says in a conversation: its text, or the message in full. An agent is given no more of it."""
    return [turn["prompt"] if turn.get("content") is None else turn["content"] for turn in conversation]


def fields_of(conversation: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The fields of a row that look at a conversation as one: prompt and reference of its last turn, and the tool calls
    expected of all turns, where every turn says so."""
    found: dict[str, Json] = {"prompt": conversation[-1]["prompt"]}
    if conversation[-1].get("reference") is not None:
        found["reference"] = conversation[-1]["reference"]
    calls = _calls_of([turn.get("reference_trajectory") for turn in conversation])
    return found if calls is None else {**found, "reference_trajectory": calls}


def _calls_of(turns: Sequence[Json]) -> Json:
    """The calls of all turns; `None` where a turn says nothing of them, and what is no trajectory for itself."""
    found: list[Json] = []
    for given in turns:
        try:
            calls = calls_in(given)
        except RowError:
            return given  # the metrics tell what is wrong with it
        if calls is None:
            return None
        found += calls
    return found


def summed(turns: Sequence[Turn]) -> dict[str, Any]:
    """What metrics that look at a conversation as one row are given of its turns.

    Returns:
        response (of the last turn), trajectory (the calls of all turns; `None` where a turn's are not known) and usage
        (the sums; unknown where a turn does not say).
    """
    known = [t.trajectory for t in turns]
    return {
        "response": turns[-1].response if turns else None,
        "trajectory": None if None in known else tuple(call for calls in known for call in calls or ()),
        "usage": Usage.total(t.usage for t in turns),
    }


def turn_out(turn: Turn) -> dict[str, Json]:
    """A turn of an answer as JSON, what it does not say left out."""
    found: dict[str, Json] = {"prompt": turn.prompt}
    if turn.response is not None:
        found["response"] = turn.response
    if turn.trajectory is not None:
        calls = [{"tool_name": c.tool_name, "tool_input": c.tool_input} for c in turn.trajectory]
        found["predicted_trajectory"] = calls
    if turn.steps:
        found["steps"] = [step_out(s) for s in turn.steps]
    if turn.usage is not None:
        found["usage"] = {"input_tokens": turn.usage.input_tokens, "output_tokens": turn.usage.output_tokens}
    if turn.trajectory_error is not None:
        found["trajectory_error"] = turn.trajectory_error
    found.update({name: value for name in _PLAIN if (value := getattr(turn, name)) is not None})
    return found


def turn_in(value: Mapping[str, Json]) -> Turn:
    """The turn that `turn_out`, a recording or an agent wrote."""
    prompt, response = value.get("prompt"), value.get("response")
    calls, why = _trajectory(value.get("predicted_trajectory"))
    return Turn(
        prompt="" if prompt is None else _text(prompt),
        response=None if response is None else _text(response),
        trajectory=calls,
        steps=tuple(map(step_in, value.get("steps") or ())),
        usage=usage_of(value.get("usage")),
        trajectory_error=why or value.get("trajectory_error"),
        content=value.get("content"),
        latency_in_seconds=seconds_of(value.get("latency_in_seconds")),
        extra=value.get("extra"),
    )


def turns_in(value: Json) -> tuple[Turn, ...] | None:
    """The turns of a recording or an answer; `None` where nothing is there.

    Raises:
        RowError: It is no list of turns.
    """
    if value is None or value == []:
        return None
    if not isinstance(value, list) or not all(isinstance(t, Mapping) and not _SIGNS.isdisjoint(t) for t in value):
        raise RowError("malformed_turns", f"the turns are no list of objects with any of {', '.join(sorted(_SIGNS))}")
    try:
        return tuple(map(turn_in, value))
    except (AttributeError, KeyError, TypeError) as error:
        raise RowError("malformed_turns", f"the turns cannot be read: {type(error).__name__}: {error}") from None


def usage_of(value: Json) -> Usage | None:
    """Token counts of a mapping, under the names of the common providers; unknown ones stay `None`."""
    if not isinstance(value, Mapping):
        return None
    given = _count(value, "input_tokens", "prompt_tokens", "prompt_token_count")
    made = _count(value, "output_tokens", "completion_tokens", "candidates_token_count")
    return None if given is None and made is None else Usage(given, made)


def seconds_of(value: Json) -> float | None:
    """A duration, also from its text; `None` where it is no finite number of at least 0."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value) if value >= 0 else None


def step_out(step: Step) -> dict[str, Json]:
    """A step as JSON; but for the value, what it does not say is left out."""
    found: dict[str, Json] = {"kind": step.kind, "author": step.author, "value": step.value}
    found.update({n: v for n in ("tool_name", "id", "extra") if (v := getattr(step, n)) is not None})
    return found


def step_in(value: Mapping[str, Json]) -> Step:
    """The step that `step_out` wrote."""
    get = value.get
    return Step(value["kind"], get("author", ""), get("value"), get("tool_name"), get("id"), get("extra"))


def _expected(turn: Mapping[str, Json]) -> Turn:
    prompt, reference = turn.get("prompt"), turn.get("reference")
    calls, why = _trajectory(turn.get("reference_trajectory"))
    return Turn(
        prompt="" if prompt is None else _text(prompt),
        response=None if reference is None else _text(reference),
        trajectory=calls,
        steps=tuple(map(step_in, turn.get("steps") or ())),
        content=turn.get("content"),
        rubrics=tuple(turn.get("rubrics") or ()),
        trajectory_error=why,
        extra=turn.get("extra"),
    )


def _trajectory(value: Json) -> tuple[Trajectory | None, str | None]:
    try:
        return parse_trajectory(value), None
    except RowError as error:
        return None, error.message


def _count(value: Mapping[str, Json], *names: str) -> int | None:
    """The first whole number of at least 0; columns of numbers may hold it as a float."""
    counts = (value.get(name) for name in names)
    whole = (int(c) if isinstance(c, float) and c.is_integer() else c for c in counts)
    return next((c for c in whole if isinstance(c, int) and not isinstance(c, bool) and 0 <= c < _MOST), None)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
