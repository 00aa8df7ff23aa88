"""Forms of requests and responses, beside those of the input schema of Agent Evaluation (tests of its dialect)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalbeam.schemas.formats.messages import (
    REQUEST_KEYS,
    RESPONSE_KEYS,
    agent_input,
    chat_of,
    parsed,
    request_text,
    response_text,
    tool_calls_of,
    trace_of,
)

CALL = {"id": "1", "function": {"name": "look", "arguments": {}}}


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        ('{"messages": []}', REQUEST_KEYS, {"messages": []}),
        (' [{"content": "a"}]', RESPONSE_KEYS, [{"content": "a"}]),
        ('{"a": 1}', REQUEST_KEYS, '{"a": 1}'),
        ('{"a": 1}', None, {"a": 1}),
        ("[1, 2]", None, "[1, 2]"),
        ('{"messages": ', REQUEST_KEYS, '{"messages": '),
        ("messages", REQUEST_KEYS, "messages"),
        (5, REQUEST_KEYS, 5),
    ],
)
def test_json_text_is_read_where_its_form_is_known(given: Any, known: Any, expected: Any) -> None:
    assert parsed(given, known) == expected


@pytest.mark.parametrize("value", [None, 5, [], ["a"], {}, {"messages": []}, {"messages": "no"}, {"messages": ["no"]}])
def test_requests_of_no_known_form_stay_and_their_text_is_json(value: Any) -> None:
    assert value is None or json.loads(request_text(value)) == value
    assert agent_input(value) == value


@pytest.mark.parametrize(
    "value", [None, 5, [], {}, {"choices": []}, {"choices": ["no"]}, {"choices": [{}]}, {"output": [{"type": "call"}]}]
)
def test_responses_of_no_known_form_stay(value: Any) -> None:
    assert response_text(value) == value


def test_keys_without_a_value_are_no_form() -> None:
    """Record columns of Parquet have every key in every row."""
    response = {"content": None, "choices": [{"message": {"content": "Ho"}}], "messages": None, "output": None}
    assert response_text(response) == "Ho"
    assert request_text({"messages": None, "query": "Hi", "history": None}) == "Hi"


def test_parts_become_chat_messages() -> None:
    parts = [
        {"role": "user", "parts": [{"type": "text", "content": "Hi "}, {"type": "text", "content": "there"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "look", "arguments": None}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": {"at": 1}}]},
    ]
    assert chat_of(parts) == {
        "messages": [
            {"role": "user", "content": "Hi there"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "content": '{"at":1}'},
        ]
    }
    assert chat_of([{"role": "user", "content": "Hi"}]) == [{"role": "user", "content": "Hi"}]


def test_calls_stand_in_choices_or_messages() -> None:
    message = {"role": "assistant", "tool_calls": [CALL, {"function": {}}]}
    look = {"name": "look", "arguments": {}}
    assert tool_calls_of({"choices": [{"message": message}]}) == [look]
    assert tool_calls_of([{"choices": [{"message": message}]}]) == [look]
    assert tool_calls_of({"messages": [message, {"content": "x", "tool_calls": None}]}) == [look]
    langchain = {"type": "ai", "tool_calls": [{"name": "look", "args": {"at": 1}, "id": "1"}]}
    assert tool_calls_of({"messages": [langchain]}) == [{"name": "look", "arguments": {"at": 1}}]
    item = {"type": "function_call", "call_id": "1", "name": "look", "arguments": '{"at": 1}'}
    assert tool_calls_of({"output": [item, {"type": "message", "content": "x"}]}) == [
        {"name": "look", "arguments": '{"at": 1}'}
    ]
    assert tool_calls_of("text") == tool_calls_of({"messages": "no"}) == []


def test_a_trace_stands_beside_the_answer() -> None:
    assert trace_of({"databricks_output": {"trace": {"info": 1}}}) == trace_of({"trace": {"info": 1}}) == {"info": 1}
    assert trace_of({"content": "x"}) is None
    assert trace_of("x") is None
