import asyncio
import functools
from collections.abc import Mapping
from typing import Any

import pytest

from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms import registry
from evalbeam.transforms.agents.function import FunctionAgent


def by_prompt(prompt):
    return f"to {prompt}"


async def by_prompt_later(prompt):
    return f"to {prompt}"


def by_row_name(row):
    return row["prompt"]


def by_annotation(anything: dict[str, Any]):
    return anything["prompt"]


def by_mapping(anything: Mapping):
    return anything["prompt"]


def by_text_annotation(anything: "dict[str, Any]", more=1):
    return anything["prompt"]


def keyed(prompt, *, idempotency_key):
    return f"{prompt} {idempotency_key}"


class Object:
    def __call__(self, example):
        return example["prompt"]

    def method(self, text):
        return text

    async def later(self, text):
        return text


class Later:
    async def __call__(self, prompt):
        return prompt


@pytest.mark.parametrize(
    ("function", "whole_row"),
    [
        (by_prompt, False),
        (by_prompt_later, False),
        (by_row_name, True),
        (by_annotation, True),
        (by_mapping, True),
        (by_text_annotation, True),
        (keyed, False),
        (Object(), True),
        (Object().method, False),
        (functools.partial(by_prompt), False),
        (len, False),
        (lambda instance: "", True),
        (lambda *given: "", False),
    ],
)
def test_the_signature_says_what_is_given(function, whole_row):
    agent = FunctionAgent(function)
    assert agent.whole_row == whole_row
    assert agent.inputs == (() if whole_row else ("prompt",))


def given_more(function):
    @functools.wraps(function)
    def wrapper(*given):
        return function(*given, "more")

    return wrapper


@given_more
def by_prompt_and_more(prompt, more):
    return f"{prompt} {more}"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda: "", "too many positional arguments"),
        (lambda prompt, other: "", "missing a required argument: 'other'"),
        (lambda *, prompt: "", "too many positional arguments"),
        (lambda idempotency_key: "", "multiple values for argument 'idempotency_key'"),
    ],
)
def test_a_function_that_takes_something_else_is_refused(function, why):
    with pytest.raises(ConfigError, match=f"^agent.target: the function cannot be called with .*: {why}"):
        FunctionAgent(function)
    assert FunctionAgent(by_prompt_and_more).connect()("x", "key") == "x more"


@pytest.mark.parametrize("function", [by_prompt_later, Object().later, Later(), functools.partial(by_prompt_later)])
def test_coroutine_functions_stay_coroutine_functions(function):
    ask = FunctionAgent(function).connect()
    assert asyncio.iscoroutinefunction(ask)
    assert asyncio.run(ask("x", "key")) in ("x", "to x")


@pytest.mark.parametrize("function", [by_prompt, Object().method, lambda prompt: prompt])
def test_functions_are_called_as_they_are(function):
    ask = FunctionAgent(function).connect()
    assert not asyncio.iscoroutinefunction(ask)
    assert ask("x", "key") == function("x")


def test_the_idempotency_key_is_handed_over():
    assert FunctionAgent(keyed).connect()("x", "key 7") == "x key 7"


def test_a_target_by_name():
    agent = registry.build(registry.find("agent", "function"), {"target": "os.path:basename"}, "agent")
    assert agent.connect()("a/b", "") == "b"
    assert agent.target == "os.path:basename"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("os.path:bsename", "no 'bsename'"),
        ("no_such_module:agent", "no_such_module"),
        ("os.path", "names no object"),
        ("os:sep", "os:sep is str"),
        ("collections:Counter", "is the class Counter"),
        (17, "the target is int"),
        (None, "needs a target"),
    ],
)
def test_what_cannot_be_called_is_a_configuration_error(target, message):
    with pytest.raises(ConfigError, match=message) as caught:
        registry.build(registry.find("agent", "function"), {"target": target}, "agent")
    assert str(caught.value).startswith("agent.target: ")
