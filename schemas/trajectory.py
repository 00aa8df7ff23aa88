"""Trajectories as datasets and agents write them, read into tuples of `ToolCall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import RowError
from .instance import ToolCall, Trajectory
from .json import Json
from .values import parse_json

CODE = "unparseable_trajectory"
"""Code of every error raised here."""

_NAMES = ("tool_name", "name")
_INPUTS = ("tool_input", "args", "arguments")
_ALLOWED = "a list of {tool_name, tool_input}, {name, args}, {name, arguments} or OpenAI tool_calls, or its JSON text"

# A frozen dataclass's constructor is most of the time of parsing; its slots can be set directly.
_new = object.__new__
_set_name = ToolCall.__dict__["tool_name"].__set__
_set_input = ToolCall.__dict__["tool_input"].__set__


def parse_trajectory(value: Any) -> Trajectory | None:
    """The tool calls that a dataset's value or an agent's answer describes.

    Accepted, also mixed and as JSON text: a list (or tuple) of `{tool_name, tool_input}`, `{name, args}`,
    `{name, arguments}`, `{function: {name, arguments}}` as in OpenAI's `tool_calls`, or `ToolCall`; and an object
    whose `tool_calls` is such a list. A null key is a missing key. `arguments` and the inputs may be JSON text of an
    object; other text is taken as it is (a tool with one unnamed argument), unless it begins like an object or stands
    in `arguments`.

    Args:
        value: What was found.

    Returns:
        The calls in their order. `None` where nothing is there: `None`, blank text (an empty CSV cell) or the JSON
        text "null". A call's `tool_input` is `{}` where the source says so and `None` where it says nothing.

    Raises:
        RowError: Code "unparseable_trajectory"; names the call, what was found there and what is allowed.
    """
    if type(value) is not list:
        value = calls_in(value)
        if value is None:
            return None
    calls = []
    for item in value:
        if type(item) is dict:
            name, given = item.get("tool_name"), item.get("tool_input")
            if type(name) is str and type(given) is dict and name:
                call = _new(ToolCall)
                _set_name(call, name)
                _set_input(call, given)
                calls.append(call)
                continue
        calls.append(_call(item, len(calls) + 1))
    return tuple(calls)


def calls_in(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """The calls in a value that `parse_trajectory` reads, each as it is written; `None` where nothing is there.

    Raises:
        RowError: As `parse_trajectory`, but for what is wrong with a single call.
    """
    if isinstance(value, str | bytes):
        value = _loads(value, "the trajectory") if value.strip() else None
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = _message_calls(value)
    if not isinstance(value, list | tuple):
        raise RowError(CODE, f"the trajectory is {_kind(value)} (allowed: {_ALLOWED})")
    return value


def _call(item: Any, number: int) -> ToolCall:
    """Call `number`, counted from 1, in any accepted form."""
    if isinstance(item, ToolCall):
        return item
    if not isinstance(item, Mapping):
        raise RowError(CODE, f"call {number} is {_kind(item)} (allowed: {_ALLOWED})")
    function = item.get("function")
    source = function if isinstance(function, Mapping) else item
    name = next((source[k] for k in _NAMES if source.get(k) is not None), None)
    if not isinstance(name, str) or not name:
        found = "no name" if name is None else "an empty name" if name == "" else f"{_kind(name)} for a name"
        raise RowError(CODE, f"call {number} has {found} (allowed: a text in tool_name or name)")
    key = next((k for k in _INPUTS if source.get(k) is not None), None)
    return ToolCall(name, None if key is None else _input(source[key], key, f"{key} of call {number}"))


def _input(value: Any, key: str, place: str) -> Json:
    if isinstance(value, str) and (key == "arguments" or value.lstrip().startswith("{")):
        value = _loads(value, place) if value.strip() else {}
        if not isinstance(value, Mapping):
            raise RowError(CODE, f"{place} is JSON text of {_kind(value)} (allowed: an object)")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return value
    raise RowError(CODE, f"{place} is {_kind(value)} (allowed: an object)")


def _message_calls(message: Mapping[str, Any]) -> Any:
    calls = message.get("tool_calls")
    if calls is None:
        raise RowError(CODE, f"the trajectory is an object without tool_calls (allowed: {_ALLOWED})")
    return _loads(calls, "tool_calls") if isinstance(calls, str) else calls


def _loads(text: str | bytes, place: str) -> Any:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    except RowError as error:
        raise RowError(CODE, f"{place} is no JSON: {error.message.partition(' (allowed')[0]}") from None


def _kind(value: Any) -> str:
    """What a value is, in JSON's words."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", dict: "an object", list: "a list"}
    return names.get(type(value), f"of Python type {type(value).__name__}")
