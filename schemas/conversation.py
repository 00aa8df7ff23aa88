"""Converts conversations of datasets and agents to turns, and turns back to JSON.

A row of several turns has a field `conversation`, and a recorded or live answer to it a field `turns`: lists with one
object for each turn, in order.

| key | meaning |
|---|---|
| `prompt` | what the user says, text |
| `content` | the user's complete message, if it is more than text |
| `reference`; of an answer `response` | the final response, text |
| `reference_trajectory`; of an answer `predicted_trajectory` | the tool calls, in any form `parse_trajectory` reads |
| `steps` | the agent's intermediate steps, `{kind, author, value, tool_name, id}` each |
| `rubrics` | properties required of the answer of this turn |
| `usage`, `latency_in_seconds` | of an answer, if known |

Besides `conversation`, a row may have `session` (`{app_name, user_id, session_id, state}`) and `rubrics` of the whole
conversation. Instead of `conversation` it may have `scenario` (`{starting_prompt, conversation_plan, user_persona}`),
for a simulated user.
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
_MOST = 2**53  # tokens of one count, so that sums over a conversation stay within 64 bits
_SIGNS = frozenset(("response", "predicted_trajectory", "steps"))


def pair_turns(example: Example) -> tuple[tuple[Turn, Turn | None], ...]:
    """Pairs the expected and the actual turns of an example; a row of a single turn gives one pair.

    An expected turn always has a prompt; its other fields are `None` or empty if the dataset does not tell them, or if
    a simulated user led the conversation. The actual turn is `None` if the agent gave no such turn. Turns are parsed
    at each call; metrics use `ScoringBatch.turns`, which caches them.
    """
    call, expected = example.invocation, expected_turns(example.instance)
    if call.turns is None and len(expected) == 1 and call.answered:
        text = None if call.response is None else _text(call.response)
        whole = Turn(expected[0].prompt, text, call.predicted_trajectory, usage=call.usage)
        return ((expected[0], whole),)
    pairs = zip_longest(expected, call.turns or ())
    return tuple((given or Turn(actual.prompt), _add_user_message(given, actual)) for given, actual in pairs)


def _add_user_message(given: Turn | None, actual: Turn | None) -> Turn | None:
    """Returns the actual turn, with the user's message of the expected turn if the answer does not repeat it."""
    if given is None or actual is None or actual.prompt or actual.content is not None:
        return actual
    return replace(actual, prompt=given.prompt, content=given.content)


def expected_turns(instance: Instance) -> tuple[Turn, ...]:
    """Returns the expected turns of a row: those of its conversation, none for a scenario, else one of its columns."""
    conversation = instance.get("conversation")
    if is_conversation(conversation):
        return tuple(_expected(turn) for turn in conversation)
    if instance.get("scenario") is not None:
        return ()
    return (_expected({name: instance.get(name) for name in ("prompt", "reference", "reference_trajectory")}),)


def is_conversation(value: Json) -> bool:
    """Returns true if a value is a list of turns (and not, for example, a list of messages with roles)."""
    return isinstance(value, list) and bool(value) and all(isinstance(t, Mapping) and "prompt" in t for t in value)


def list_user_messages(conversation: Sequence[Mapping[str, Json]]) -> list[Json]:
    """Lists the user's messages of a conversation: text, or the complete message. An agent receives nothing else."""
    return [turn["prompt"] if turn.get("content") is None else turn["content"] for turn in conversation]


def fields_of(conversation: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Returns fields of the conversation as a single turn: prompt and reference of the last turn, and the expected tool
    calls of all turns if every turn has them.
    """
    found: dict[str, Json] = {"prompt": conversation[-1]["prompt"]}
    if conversation[-1].get("reference") is not None:
        found["reference"] = conversation[-1]["reference"]
    calls = _calls_of([turn.get("reference_trajectory") for turn in conversation])
    return found if calls is None else {**found, "reference_trajectory": calls}


def _calls_of(turns: Sequence[Json]) -> Json:
    """Concatenates the calls of all turns; `None` if a turn has none, and the first invalid trajectory unchanged."""
    found: list[Json] = []
    for given in turns:
        try:
            calls = calls_in(given)
        except RowError:
            return given  # the metrics report what is wrong with it
        if calls is None:
            return None
        found += calls
    return found


def sum_turns(turns: Sequence[Turn]) -> dict[str, Any]:
    """Combines the turns of a conversation for metrics that treat it as one row.

    Returns:
        response (of the last turn), trajectory (the calls of all turns; `None` if those of a turn are unknown) and
        usage (the sums; unknown if that of a turn is).
    """
    known = [t.trajectory for t in turns]
    return {
        "response": turns[-1].response if turns else None,
        "trajectory": None if None in known else tuple(call for calls in known for call in calls or ()),
        "usage": Usage.total(t.usage for t in turns),
    }


def turn_out(turn: Turn) -> dict[str, Json]:
    """Converts a turn of an answer to JSON, without unknown fields."""
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
        found["usage"] |= {"model": turn.usage.model} if turn.usage.model else {}
    if turn.trajectory_error is not None:
        found["trajectory_error"] = turn.trajectory_error
    found.update({name: value for name in _PLAIN if (value := getattr(turn, name)) is not None})
    return found


def turn_in(value: Mapping[str, Json]) -> Turn:
    """Reads a turn from the JSON of `turn_out`, of a recording or of an agent."""
    return _read_turn(
        value,
        "response",
        "predicted_trajectory",
        error=value.get("trajectory_error"),
        usage=usage_of(value.get("usage")),
        latency_in_seconds=seconds_of(value.get("latency_in_seconds")),
    )


def turns_in(value: Json) -> tuple[Turn, ...] | None:
    """Reads the turns of a recording or an answer; `None` if there are none.

    Raises:
        RowError: The value is not a list of turns.
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
    """Reads token counts under the names of the common providers, and `model`; unknown counts are `None`."""
    if not isinstance(value, Mapping):
        return None
    given = _count(value, "input_tokens", "prompt_tokens", "prompt_token_count")
    made = _count(value, "output_tokens", "completion_tokens", "candidates_token_count")
    model = value.get("model")
    return None if given is None and made is None else Usage(given, made, model if isinstance(model, str) else None)


def seconds_of(value: Json) -> float | None:
    """Reads a duration from a number or text; `None` unless it is a finite number of at least 0."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value) if value >= 0 else None


def step_out(step: Step) -> dict[str, Json]:
    """Converts a step to JSON, without unknown fields except the value."""
    found: dict[str, Json] = {"kind": step.kind, "author": step.author, "value": step.value}
    found.update({n: v for n in ("tool_name", "id", "extra") if (v := getattr(step, n)) is not None})
    return found


def step_in(value: Mapping[str, Json]) -> Step:
    """Reads a step from the JSON of `step_out`."""
    get = value.get
    return Step(value["kind"], get("author", ""), get("value"), get("tool_name"), get("id"), get("extra"))


def _expected(turn: Mapping[str, Json]) -> Turn:
    return _read_turn(turn, "reference", "reference_trajectory", rubrics=tuple(turn.get("rubrics") or ()))


def _read_turn(turn: Mapping[str, Json], answer: str, calls: str, error: str | None = None, **more: Any) -> Turn:
    """Reads what turns given and turns expected share; `more` are the other fields."""
    prompt, response = turn.get("prompt"), turn.get(answer)
    trajectory, why = _trajectory(turn.get(calls))
    return Turn(
        prompt="" if prompt is None else _text(prompt),
        response=None if response is None else _text(response),
        trajectory=trajectory,
        steps=tuple(map(step_in, turn.get("steps") or ())),
        trajectory_error=why or error,
        content=turn.get("content"),
        extra=turn.get("extra"),
        **more,
    )


def _trajectory(value: Json) -> tuple[Trajectory | None, str | None]:
    try:
        return parse_trajectory(value), None
    except RowError as error:
        return None, error.message


def _count(value: Mapping[str, Json], *names: str) -> int | None:
    """Returns the first whole number of at least 0 under the names; numeric columns may hold it as a float."""
    counts = (value.get(name) for name in names)
    whole = (int(c) if isinstance(c, float) and c.is_integer() else c for c in counts)
    return next((c for c in whole if isinstance(c, int) and not isinstance(c, bool) and 0 <= c < _MOST), None)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
