import asyncio

import pytest

from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import ToolCall
from evalbeam.transforms.agents.base import invocation_of, read_answer
from evalbeam.transforms.agents.queryable import QueryableAgent


class Engine:
    """A reasoning engine that answers what it was given."""

    def __init__(self, answer):
        self.answer = answer

    def query(self, *, input):
        return {"input": input, **self.answer} if isinstance(self.answer, dict) else self.answer


class Later(Engine):
    async def query(self, *, input):
        return super().query(input=input)


def ask(answer):
    agent = QueryableAgent(Engine(answer))
    return invocation_of(Outcome(read_answer(agent.read(agent.connect()("hi", "key")), 1 << 20)))


def test_output_is_the_response():
    assert ask({"output": "hello"}).response == "hello"
    assert ask({"output": "hello"}).extra is None
    assert ask("hello").response == "hello"
    assert ask({"response": "hello", "trace": 1}).extra == {"input": "hi", "trace": 1}


def test_content_blocks_are_joined():
    assert ask({"output": [{"type": "text", "text": "hel"}, {"type": "image"}, "lo"]}).response == "hello"


def test_intermediate_steps_of_langchain_objects():
    agents = pytest.importorskip("langchain_core.agents")
    steps = [
        (agents.AgentAction(tool="lamp_on", tool_input={"room": "hall"}, log=""), "ok"),
        (agents.AgentAction(tool="say", tool_input="it is on", log=""), "ok"),
    ]
    found = ask({"output": "done", "intermediate_steps": steps})
    assert found.predicted_trajectory == (ToolCall("lamp_on", {"room": "hall"}), ToolCall("say", "it is on"))


def test_intermediate_steps_as_langchain_dumps_them():
    agents = pytest.importorskip("langchain_core.agents")
    load = pytest.importorskip("langchain_core.load")
    action = load.dumpd(agents.AgentAction(tool="lamp_on", tool_input={"room": "hall"}, log=""))
    assert action["kwargs"]["tool"] == "lamp_on"
    found = ask({"output": "done", "intermediate_steps": [[action, "ok"]]})
    assert found.predicted_trajectory == (ToolCall("lamp_on", {"room": "hall"}),)


def test_steps_of_another_form_are_told_not_lost():
    dumped = {"lc": 1, "kwargs": {"tool": "lamp_on", "tool_input": None}}
    assert ask({"output": "x", "intermediate_steps": [[dumped, 1]]}).predicted_trajectory == (ToolCall("lamp_on", {}),)
    found = ask({"output": "x", "intermediate_steps": ["thought hard"]})
    assert (found.status, found.predicted_trajectory) == ("ok", None)
    assert found.trajectory_error
    assert ask({"output": "x", "intermediate_steps": []}).predicted_trajectory == ()


def test_an_asynchronous_query():
    query = QueryableAgent(Later({"output": "hello"})).connect()
    assert asyncio.iscoroutinefunction(query)
    assert asyncio.run(query("hi", "key")) == {"input": "hi", "output": "hello"}


@pytest.mark.parametrize("target", [Engine, object(), "os:sep", None])
def test_what_has_no_query_is_a_configuration_error(target):
    with pytest.raises(ConfigError, match=r"agent\.target"):
        QueryableAgent(target)
