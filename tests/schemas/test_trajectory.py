"""Every written form of a trajectory reads as the same tool calls, and what is none says where and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import RowError
from evalbeam.schemas.instance import ToolCall
from evalbeam.schemas.trajectory import parse_trajectory
from evalbeam.schemas.values import exact_json

CALLS = (ToolCall("a", {"x": 1}), ToolCall("b", {}))
FORMS: dict[str, Any] = {
    "ours": [{"tool_name": "a", "tool_input": {"x": 1}}, {"tool_name": "b", "tool_input": {}}],
    "name and args": [{"name": "a", "args": {"x": 1}}, {"name": "b", "args": {}}],
    "name and arguments": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}],
    "arguments as text": [{"name": "a", "arguments": '{"x": 1}'}, {"name": "b", "arguments": ""}],
    "OpenAI tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x": 1}'}},
        {"id": "2", "type": "function", "function": {"name": "b", "arguments": "{}"}},
    ],
    "OpenAI message": {
        "role": "assistant",
        "tool_calls": [{"function": {"name": "a", "arguments": {"x": 1}}}, CALLS[1]],
    },
    "Vertex message": {
        "tool_calls": [{"tool_name": "a", "tool_input": '{"x": 1}'}, {"tool_name": "b", "tool_input": "{}"}]
    },
    "tool_calls as text": {"tool_calls": '[{"name": "a", "args": {"x": 1}}, {"name": "b", "args": {}}]'},
    "mixed, null keys": ({"tool_name": None, "name": "a", "tool_input": None, "args": {"x": 1}}, CALLS[1]),
    "tool calls": CALLS,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    assert parse_trajectory(FORMS[form]) == CALLS


@pytest.mark.parametrize("form", [f for f in FORMS if "ToolCall" not in repr(FORMS[f])])
def test_forms_as_json_text(form: str) -> None:
    assert parse_trajectory(json.dumps(FORMS[form])) == CALLS
    assert parse_trajectory(json.dumps(FORMS[form]).encode()) == CALLS


@pytest.mark.parametrize("nothing", [None, "", " \n", "null"])
def test_nothing_is_no_trajectory(nothing: Any) -> None:
    assert parse_trajectory(nothing) is None


@pytest.mark.parametrize("empty", [[], (), "[]", {"tool_calls": []}])
def test_an_empty_list_is_an_empty_trajectory(empty: Any) -> None:
    assert parse_trajectory(empty) == ()


def test_what_a_call_says_of_its_input() -> None:
    said = parse_trajectory([{"name": "a"}, {"name": "a", "args": None}, {"name": "a", "args": {}}])
    assert said is not None
    assert [call.tool_input for call in said] == [None, None, {}]
    assert parse_trajectory([{"tool_name": "a", "tool_input": "Paris"}]) == (ToolCall("a", "Paris"),)
    assert parse_trajectory([{"tool_name": "a", "tool_input": "12"}]) == (ToolCall("a", "12"),)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[{", "the trajectory is no JSON: "),
        ("[{'tool_name': 'a'}]", "the trajectory is no JSON: "),
        (b"\xff", "the trajectory is no JSON: "),
        (3, "the trajectory is a number (allowed: a list of"),
        ('"a"', "the trajectory is a text"),
        (object(), "the trajectory is of Python type object"),
        ({"tool_name": "a"}, "the trajectory is an object without tool_calls"),
        ({"tool_calls": 1}, "the trajectory is a number"),
        ({"tool_calls": "["}, "tool_calls is no JSON"),
        ([{"name": "a"}, "b"], "call 2 is a text (allowed: a list of"),
        ([None], "call 1 is null"),
        ([{"args": {}}], "call 1 has no name (allowed: a text in tool_name or name)"),
        ([{"name": ""}], "call 1 has an empty name"),
        ([{"name": 3}], "call 1 has a number for a name"),
        ([{"name": "a", "args": [1]}], "args of call 1 is a list (allowed: an object)"),
        ([{"name": "a", "args": True}], "args of call 1 is a boolean"),
        ([{"tool_name": "a", "tool_input": ' {"x": '}], "tool_input of call 1 is no JSON"),
        ([{"name": "a", "arguments": "x"}], "arguments of call 1 is no JSON"),
        ([{"name": "a", "arguments": "[1]"}], "arguments of call 1 is JSON text of a list (allowed: an object)"),
    ],
)  # fmt: skip
def test_what_is_no_trajectory(value: Any, message: str) -> None:
    with pytest.raises(RowError) as caught:
        parse_trajectory(value)
    assert caught.value.code == "unparseable_trajectory"
    assert caught.value.message.startswith(message)
    assert " at 0x" not in caught.value.message


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["{}", "[]", '{"x": 1}', "["]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["tool_name", "tool_input", "name", "args", "arguments", "function", "tool_calls"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_anything_reads_as_calls_or_says_why_not(value: Any) -> None:
    try:
        calls = parse_trajectory(value)
    except RowError:
        return
    assert calls is None or all(isinstance(c.tool_name, str) and c.tool_name for c in calls)
    assert parse_trajectory(calls) == calls


@pytest.mark.parametrize("digits", ["123456789012345678901", "9223372036854775808", "-9223372036854775809"])
def test_integers_beyond_64_bits_keep_their_digits_in_json_text(digits: str) -> None:
    text = f'[{{"tool_name": "t", "tool_input": {{"id": {digits}, "x": NaN}}}}]'
    rows = exact_json(text.encode())
    assert parse_trajectory(text) == parse_trajectory(rows) == (ToolCall("t", {"id": digits, "x": None}),)
    inner = [{"name": "t", "arguments": f'{{"id": {digits}}}'}]
    assert parse_trajectory(inner) == (ToolCall("t", {"id": digits}),)
