"""Parses trajectories of datasets and agents into tuples of `ToolCall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import RowError
from .instance import ToolCall, Trajectory
from .json import Json
from .values import parse_json

CODE = "unparseable_trajectory"
"""Code of every error raised here."""

_CALL_KEYS = ("tool_name", "tool_input")
_NAMES = ("tool_name", "name")
_INPUTS = ("tool_input", "args", "arguments")
_ALLOWED = "a list of {tool_name, tool_input}, {name, args}, {name, arguments} or OpenAI tool_calls, or its JSON text"

# The constructor of a frozen dataclass takes most of the parsing time, so the slots are set directly.
_new = object.__new__
_set_name = ToolCall.__dict__["tool_name"].__set__
_set_input = ToolCall.__dict__["tool_input"].__set__


def parse_trajectory(value: Any) -> Trajectory | None:
    """Parses the tool calls of a dataset value or of an agent's answer.

    Accepted, also mixed and as JSON text, are: a list (or tuple) of `{tool_name, tool_input}`, `{name, args}`,
    `{name, arguments}`, `{function: {name, arguments}}` as in OpenAI's `tool_calls`, or `ToolCall`; and an object
    whose `tool_calls` is such a list. A null key equals a missing key. `arguments` and the inputs may be JSON text of
    an object; other text is kept (a tool with one unnamed argument), unless it starts like an object or is the value of
    `arguments`.

    Args:
        value: The value to parse.

    Returns:
        The calls in order. `None` if there is no trajectory: `None`, blank text (an empty CSV cell) or the JSON text
        "null". A call's `tool_input` is `{}` if the source has an empty one and `None` if it has none.

    Raises:
        RowError: Code "unparseable_trajectory"; the message names the call, the value found and what is allowed.
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
        calls.append(_parse_call(item, len(calls) + 1))
    return tuple(calls)


def calls_in(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """Returns the raw calls of a value that `parse_trajectory` reads; `None` if there is no trajectory.

    Raises:
        RowError: As `parse_trajectory`, except that single calls are not checked.
    """
    if isinstance(value, str | bytes):
        value = _loads(value, "the trajectory") if value.strip() else None
    if value is None:
        return None
    if isinstance(value, Mapping):
        value = _get_message_calls(value)
    if not isinstance(value, list | tuple):
        raise RowError(CODE, f"the trajectory is {_name_kind(value)} (allowed: {_ALLOWED})")
    return value


def is_as_read(calls: Trajectory | None, row: Json) -> bool:
    """Returns true if calls hold the very values of a row, so that both have the same text."""
    if calls is None or type(row) is not list or len(calls) != len(row):
        return False
    for call, one in zip(calls, row, strict=True):
        if type(one) is not dict or len(one) != 2:
            return False
        (first, name), (second, given) = one.items()
        if name is not call.tool_name or given is not call.tool_input or (first, second) != _CALL_KEYS:
            return False
    return True


def _parse_call(item: Any, number: int) -> ToolCall:
    """Parses call `number`, counted from 1, in any accepted form."""
    if isinstance(item, ToolCall):
        return item
    if not isinstance(item, Mapping):
        raise RowError(CODE, f"call {number} is {_name_kind(item)} (allowed: {_ALLOWED})")
    function = item.get("function")
    source = function if isinstance(function, Mapping) else item
    name = next((source[k] for k in _NAMES if source.get(k) is not None), None)
    if not isinstance(name, str) or not name:
        found = "no name" if name is None else "an empty name" if name == "" else f"{_name_kind(name)} for a name"
        raise RowError(CODE, f"call {number} has {found} (allowed: a text in tool_name or name)")
    key = next((k for k in _INPUTS if source.get(k) is not None), None)
    return ToolCall(name, None if key is None else _parse_input(source[key], key, f"{key} of call {number}"))


def _parse_input(value: Any, key: str, place: str) -> Json:
    if isinstance(value, str) and (key == "arguments" or value.lstrip().startswith("{")):
        value = _loads(value, place) if value.strip() else {}
        if not isinstance(value, Mapping):
            raise RowError(CODE, f"{place} is JSON text of {_name_kind(value)} (allowed: an object)")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return value
    raise RowError(CODE, f"{place} is {_name_kind(value)} (allowed: an object)")


def _get_message_calls(message: Mapping[str, Any]) -> Any:
    calls = message.get("tool_calls")
    if calls is None:
        raise RowError(CODE, f"the trajectory is an object without tool_calls (allowed: {_ALLOWED})")
    return _loads(calls, "tool_calls") if isinstance(calls, str) else calls


def _loads(text: str | bytes, place: str) -> Any:
    try:
        return parse_json(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    except RowError as error:
        raise RowError(CODE, f"{place} is no JSON: {error.message.partition(' (allowed')[0]}") from None


def _name_kind(value: Any) -> str:
    """Names the type of a value in JSON's terms."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", dict: "an object", list: "a list"}
    return names.get(type(value), f"of Python type {type(value).__name__}")
