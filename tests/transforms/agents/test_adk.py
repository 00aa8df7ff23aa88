"""ADK agents through ADK's own Runner: turns, state, failures, and what a worker pays for them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalbeam import EvaluationConfig
from evalbeam.pipelines.run.parts import agent_type
from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Chunk, Instance, ToolCall, Usage
from evalbeam.transforms.agents._source import source_of
from evalbeam.transforms.agents.adk import AdkAgent, NeedsSimulator
from evalbeam.transforms.agents.base import invocation_of, read_answer
from evalbeam.transforms.agents.forms.adk import ModelError, TurnEvents, find_retrieval_tools
from evalbeam.transforms.calls.errors import classify_error

pytest.importorskip("google.adk")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def agents():
    sys.path.insert(0, str(HERE))
    import adk_agents

    yield adk_agents
    sys.path.remove(str(HERE))


def conversation(*messages, **fields):
    return Instance("0", {}, {"conversation": [{"prompt": m} for m in messages], **fields})


def asked(agent, instance, key="k" * 32):
    raw = asyncio.run(agent.connect()(agent.request(instance), key))
    return invocation_of(Outcome(read_answer(agent.read(raw), 1 << 20)))


def test_turns_share_a_session_and_conversations_do_not(agents):
    agent = AdkAgent(agents.dice_agent())
    for _ in range(2):
        found = asked(agent, conversation("roll 6", "roll 20"))
        assert [t.response for t in found.turns] == ["It is 61.", "It is 202."]
        assert [t.trajectory for t in found.turns] == [(ToolCall("roll", {"sides": n}),) for n in (6, 20)]
    assert found.response == "It is 202."
    assert found.predicted_trajectory == (ToolCall("roll", {"sides": 6}), ToolCall("roll", {"sides": 20}))
    assert found.usage == Usage(40, 12)
    started = asked(agent, conversation("roll 6", session={"app_name": "a", "user_id": "u", "state": {"rolls": 4}}))
    assert started.response == "It is 65."


def test_what_a_turn_holds(agents):
    found = asked(AdkAgent(agents.dice_agent()), Instance("0", {"prompt": "roll 6"}))
    (turn,) = found.turns
    assert [(s.kind, s.author, s.value, s.tool_name, s.id) for s in turn.steps] == [
        ("text", "dice", "Rolling.", None, None),
        ("call", "dice", {"sides": 6}, "roll", "1"),
        ("result", "dice", {"result": 61}, "roll", "1"),
    ]
    assert turn.usage == Usage(20, 6)
    assert turn.extra == {"inference_calls": 2, "tokens": {"prompt": 20, "candidates": 4, "reasoning": 2}}
    assert turn.latency_in_seconds > 0
    details = found.extra["app_details"]["dice"]
    assert details["instructions"].startswith("Roll dice.")
    assert details["tool_declarations"][0]["function_declarations"][0]["name"] == "roll"


def test_the_same_run_twice_gives_the_same_turns(agents):
    agent = AdkAgent(agents.dice_agent())
    raws = [asyncio.run(agent.connect()(agent.request(conversation("roll 6", "roll 2")), "k" * 32)) for _ in range(2)]
    for raw in raws:
        for turn in raw["turns"]:
            turn.pop("latency_in_seconds")
    assert raws[0] == raws[1]


def test_what_google_adk_makes_of_the_same_events(agents):
    from google.adk.evaluation.eval_case import get_all_tool_calls
    from google.adk.evaluation.evaluation_generator import EvaluationGenerator
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, Part

    async def events():
        runner = InMemoryRunner(agent=agents.dice_agent(), app_name="dice")
        await runner.session_service.create_session(app_name="dice", user_id="u", session_id="s")
        message = Content(role="user", parts=[Part(text="roll 6")])
        return [e async for e in runner.run_async(user_id="u", session_id="s", new_message=message)]

    seen, collected = TurnEvents(frozenset()), asyncio.run(events())
    for event in collected:
        seen.see(event)
    ours = seen.turn("roll 6", None, 0.0)
    (theirs,) = EvaluationGenerator.convert_events_to_eval_invocations(collected)
    calls = [(c.name, c.args) for c in get_all_tool_calls(theirs.intermediate_data)]
    assert [(c["tool_name"], c["tool_input"]) for c in ours["predicted_trajectory"]] == calls
    assert ours["response"] == "\n".join(p.text for p in theirs.final_response.parts if p.text and not p.thought)


def test_a_silent_turn_is_an_answer_without_words(agents):
    found = asked(AdkAgent(agents.odd), conversation("be fine", "be silent", "be twice"))
    assert [t.response for t in found.turns] == ["fine", "", "second"]
    assert [t.trajectory for t in found.turns] == [(), (), ()]
    assert [s.value for s in found.turns[2].steps] == ["first"]
    assert found.status == "ok"


@pytest.mark.parametrize(
    ("word", "kind", "error_type", "words"),
    [
        ("raise", "permanent", "RuntimeError", "the tool shed burns"),
        ("refused", "permanent", "ModelError", "SAFETY: no dice"),
        ("limited", "rate_limited", "ModelError", "RESOURCE_EXHAUSTED: later"),
        ("hang", "timeout", "TimeoutError", "turn 2 had no end in time"),
    ],
)
def test_a_turn_that_fails_is_the_failure_of_the_conversation(agents, word, kind, error_type, words):
    with pytest.raises(Exception, match=words) as caught:
        asked(AdkAgent(agents.odd, turn_timeout=0.2), conversation("be fine", f"then {word}"))
    assert (classify_error(caught.value).kind, classify_error(caught.value).error_type) == (kind, error_type)


def test_an_error_with_an_answer_after_it_is_no_failure(agents):
    assert asked(AdkAgent(agents.odd), conversation("it recovers")).response == "fine"
    assert ModelError("429", "").code == 429


def test_an_app_brings_its_plugins_along(agents):
    before = agents.counting.messages
    agent = AdkAgent("adk_agents:app")
    asked(agent, conversation("roll 6", "roll 6"))
    assert agents.counting.messages == before + 2
    assert agents.app.plugins == [agents.counting]
    assert AdkAgent(agents).app() is agents.app


def test_a_folder_of_an_agent(tmp_path):
    folder = tmp_path / "folder_agent"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    source = (HERE / "adk_agents.py").read_text()
    (folder / "agent.py").write_text(source.partition("\nroot_agent = ")[0] + "\nroot_agent = dice_agent()\n")
    config = EvaluationConfig.parse(
        {"dataset": {"path": "x"}, "agent": {"target": str(folder)}, "metrics": ["failure"]}
    )
    assert agent_type(config.agent) == "adk"
    found = asked(AdkAgent(str(folder)), conversation("roll 6"))
    assert found.response == "It is 61."
    first = source_of(str(folder))
    (folder / "helper.py").write_text("x = 1\n")
    assert source_of(str(folder)) != first


def test_the_type_is_found_from_an_object(agents):
    config = EvaluationConfig.parse({"dataset": {"path": "x"}, "agent": {"target": agents.app}, "metrics": ["failure"]})
    assert agent_type(config.agent) == "adk"
    assert not AdkAgent.claims("os:sep")
    assert not AdkAgent.claims(len)


def test_a_sub_agent_may_be_asked(agents):
    both = agents.Odd(name="both", sub_agents=[agents.dice_agent(), agents.Odd(name="other")])
    assert asked(AdkAgent(both, agent_name="other"), conversation("fine")).response == "fine"
    with pytest.raises(ConfigError, match="no agent 'nobody'"):
        AdkAgent(both, agent_name="nobody")


@pytest.mark.parametrize("target", [object(), "os:sep", "adk_agents:roll", "no_such_module:x"])
def test_what_is_no_agent_is_a_configuration_error(agents, target):
    with pytest.raises(ConfigError, match=r"agent\.target"):
        AdkAgent(target)


def test_a_folder_without_an_agent_is_a_configuration_error(tmp_path):
    (tmp_path / "empty_agent").mkdir()
    with pytest.raises(ConfigError, match=r"agent\.target: no agent in .*empty_agent"):
        AdkAgent(str(tmp_path / "empty_agent"))


class Persistent:
    """A simulated user who asks for more until it was told something three times."""

    def __init__(self, scenario):
        self.scenario = scenario

    async def next_message(self, history):
        if not history:
            return self.scenario["starting_prompt"]
        return None if len(history) == 3 else f"after {history[-1].response} roll {len(history)}"


def test_a_scenario_is_led_by_a_simulated_user(agents):
    row = Instance("0", {}, {"scenario": {"starting_prompt": "roll 6", "conversation_plan": "more"}})
    found = asked(AdkAgent(agents.dice_agent(), simulator=Persistent), row)
    assert [t.prompt for t in found.turns] == ["roll 6", "after It is 61. roll 1", "after It is 12. roll 2"]
    with pytest.raises(NeedsSimulator, match="needs a user simulator"):
        asked(AdkAgent(agents.dice_agent()), row)
    with pytest.raises(ConfigError, match=r"agent\.simulator: cannot import 'nowhere'"):
        AdkAgent(agents.dice_agent(), simulator="nowhere:user")


def test_a_scenario_is_led_by_a_script_or_a_model(agents):
    row = Instance("0", {}, {"scenario": {"starting_prompt": "roll 6", "conversation_plan": "more"}})
    said = ["roll 8", "</finished>"]
    for simulator in ({"script": said[:1]}, {"judge": lambda messages, schema: {"message": said.pop(0)}}):
        found = asked(AdkAgent(agents.dice_agent(), simulator=simulator), row)
        assert [(t.prompt, t.response) for t in found.turns] == [("roll 6", "It is 61."), ("roll 8", "It is 82.")]


def test_a_message_may_be_more_than_text(agents):
    parts = [{"text": "roll 6"}, {"inline_data": {"data": "aGk=", "mime_type": "text/plain"}}, {"text": "or 8"}]
    row = Instance("0", {}, {"conversation": [{"prompt": "roll 6\nor 8", "content": {"role": "user", "parts": parts}}]})
    (turn,) = asked(AdkAgent(agents.dice_agent()), row).turns
    assert (turn.prompt, turn.response) == ("roll 6\nor 8", "It is 81.")
    assert turn.content["parts"][1]["inline_data"]["mime_type"] == "text/plain"


def test_what_retrieval_brings_is_the_retrieved_context(agents):
    from google.adk.events.event import Event
    from google.adk.tools.retrieval.base_retrieval_tool import BaseRetrievalTool
    from google.genai import types

    class Shelf(BaseRetrievalTool):
        pass

    agent = agents.dice_agent()
    agent.tools.append(Shelf(name="shelf", description="books"))
    assert find_retrieval_tools(agent) == {"shelf"}
    events = TurnEvents(find_retrieval_tools(agent))
    results = [types.FunctionResponse(name=n, response={"result": ["a", "b"]}) for n in ("shelf", "roll")]
    content = types.Content(parts=[types.Part(function_response=r) for r in results])
    events.see(Event(author="dice", content=content))
    source = types.GroundingChunkRetrievedContext(text="c", uri="gs://b/c")
    grounding = types.GroundingMetadata(grounding_chunks=[types.GroundingChunk(retrieved_context=source)])
    events.see(Event(author="dice", grounding_metadata=grounding))
    from evalbeam.transforms.agents.base import chunks_of

    assert chunks_of(events.context) == (Chunk("a"), Chunk("b"), Chunk("c", "gs://b/c"))


def test_grounding_of_events_reaches_the_steps_that_judges_see(agents):
    from google.adk.events.event import Event
    from google.genai import types

    from evalbeam.schemas.conversation import turn_in
    from evalbeam.transforms.metrics._judged_turns import list_steps

    chunk = types.GroundingChunk(web=types.GroundingChunkWeb(uri="u", title="t"))
    events = TurnEvents(frozenset())
    content = types.Content(role="model", parts=[types.Part(text="It is 6.")])
    metadata = types.GroundingMetadata(grounding_chunks=[chunk])
    events.see(Event(author="dice", content=content, grounding_metadata=metadata))
    (step,) = list_steps(turn_in(events.turn("roll", None, 0.0)))
    assert step["extra"] == {"grounding_metadata": {"grounding_chunks": [{"web": {"title": "t", "uri": "u"}}]}}


def test_a_worker_imports_no_more_of_adk_than_its_runner():
    code = (
        "import sys, asyncio, json\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "from evalbeam.transforms.agents.adk import AdkAgent\n"
        "before = [m for m in sys.modules if m.startswith('google.adk')]\n"
        "agent = AdkAgent('adk_agents:root_agent')\n"
        "asyncio.run(agent.connect()({'messages': ['roll 6']}, 'k' * 32))\n"
        "after = [m for m in sys.modules if m.startswith('google.adk.evaluation')]\n"
        "print(json.dumps([before, after]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], []]


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), True])
def test_a_turn_takes_a_number_of_seconds(seconds):
    with pytest.raises(ValueError, match=r"turn_timeout is .*, allowed: a number above 0"):
        AdkAgent(None, turn_timeout=seconds)
