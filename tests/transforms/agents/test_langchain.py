"""Agents of LangChain and LangGraph: real graphs and chains over fake chat models."""

import asyncio
import json
import threading
import uuid

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from typing_extensions import TypedDict

from evalbeam import EvaluationConfig, evaluate
from evalbeam.pipelines.run.parts import agent_type
from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Chunk, ToolCall, Usage
from evalbeam.transforms.agents.base import invocation_of, read_answer
from evalbeam.transforms.agents.forms.langchain import answer_of, sum_tokens
from evalbeam.transforms.agents.langchain import LangChainAgent

USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


class FakeModel(BaseChatModel):
    """A fake chat model: it has the lamp of the user's number switched on, then says so."""

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        last, words = messages[-1], messages[-1].text.split()
        if isinstance(last, HumanMessage) and words[-1].isdigit():
            call = {"name": "set_lamp", "args": {"number": int(words[-1])}, "id": uuid.uuid4().hex}
            made = AIMessage("", tool_calls=[call], usage_metadata=USAGE)
        else:
            made = AIMessage(f"told: {last.text}", usage_metadata=USAGE)
        return ChatResult(generations=[ChatGeneration(message=made)])

    @property
    def _llm_type(self):
        return "fake"


class FakeRetriever(BaseRetriever):
    """A fake retriever: one document that repeats the query."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(f"about {query}", metadata={"source": "doc:1"})]


@tool
def set_lamp(number: int) -> str:
    """Switches a lamp on."""
    return f"lamp {number} is on"


def lamp_graph(**how):
    """A LangGraph agent in the form its documents teach: a model node, a tool node, and a loop."""
    model = FakeModel().bind_tools([set_lamp])

    def think(state: MessagesState):
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState).add_node("think", think).add_node("tools", ToolNode([set_lamp]))
    graph.add_edge(START, "think").add_conditional_edges("think", tools_condition).add_edge("tools", "think")
    return graph.compile(**how)


def ask(target, given, sync=False, **keys):
    agent = LangChainAgent(target, **keys)
    raw = agent.connect()(given, "key")
    return invocation_of(Outcome(read_answer(raw if sync else asyncio.run(raw), 1 << 20)))


LAMP = (ToolCall("set_lamp", {"number": 3}),)


@pytest.mark.parametrize("how", [{}, {"checkpointer": InMemorySaver()}], ids=["plain", "with memory"])
def test_a_graph(how):
    graph = lamp_graph(**how)
    for _ in range(2):  # a memory is not carried over
        found = ask(graph, "lamp 3")
        assert found.response == "told: lamp 3 is on"
        assert found.predicted_trajectory == LAMP
        assert (found.usage, found.retrieved_context) == (Usage(10, 4), None)


def test_an_agent_of_langchain():
    found = ask(create_agent(FakeModel(), [set_lamp]), "lamp 3")
    assert (found.response, found.predicted_trajectory) == ("told: lamp 3 is on", LAMP)


def test_the_calls_of_earlier_messages_are_not_the_agents():
    earlier = [
        {"role": "user", "content": "lamp 1"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "set_lamp", "arguments": '{"number": 1}'}}]},
        {"role": "tool", "tool_call_id": "a", "content": "lamp 1 is on"},
        {"role": "user", "content": "lamp 3"},
    ]  # fmt: skip
    assert ask(lamp_graph(), earlier).predicted_trajectory == LAMP
    found = ask(lamp_graph(), {"messages": [("user", "thanks")]})
    assert (found.response, found.predicted_trajectory) == ("told: thanks", ())


def test_a_chain_whose_prompt_has_one_variable():
    chain = ChatPromptTemplate.from_template("say {question}") | FakeModel() | StrOutputParser()
    found = ask(chain, "hi")
    assert (found.response, found.predicted_trajectory, found.usage) == ("told: say hi", (), Usage(5, 2))


def test_a_chain_with_a_retriever_gives_its_passages():
    prompt = ChatPromptTemplate.from_template("{context} {question}")
    read = FakeRetriever() | RunnableLambda(lambda found: found[0].page_content)
    chain = {"context": read, "question": RunnablePassthrough()} | prompt | FakeModel() | StrOutputParser()
    found = ask(chain, "lamps")
    assert found.response == "told: about lamps lamps"
    assert found.retrieved_context == (Chunk("about lamps", "doc:1"),)


def test_passages_of_a_tool_and_of_the_output():
    @tool(response_format="content_and_artifact")
    def look_up(number: int) -> tuple[str, list[Document]]:
        """Looks up."""
        return "found", [Document(f"page {number}")]

    look_up.name = "set_lamp"
    found = ask(create_agent(FakeModel(), [look_up]), "lamp 3")
    assert found.retrieved_context == (Chunk("page 3"),)
    chain = RunnableParallel(answer=RunnableLambda(str.upper), context=FakeRetriever())
    found = ask(RunnableLambda(lambda text: text) | chain, "hi")
    assert (found.response, found.retrieved_context) == ("HI", (Chunk("about hi", "doc:1"),))


def test_tools_that_run_where_no_messages_come_out():
    chain = RunnableLambda(lambda text: {"number": int(text)}) | set_lamp
    found = ask(chain, "3")
    assert (found.response, found.predicted_trajectory) == ("lamp 3 is on", LAMP)


def test_tools_that_run_where_the_messages_show_no_calls():
    def work(text: str) -> AIMessage:
        return AIMessage(set_lamp.invoke({"number": int(text)}))

    for target in (RunnableLambda(work), RunnableLambda(lambda text: {"messages": [work(text)]})):
        found = ask(target, "3")
        assert (found.response, found.predicted_trajectory) == ("lamp 3 is on", LAMP)


class Quiz(TypedDict):
    question: str
    answer: str
    note: str


def quiz(state_type):
    graph = StateGraph(state_type).add_node("reply", lambda state: {"answer": state["question"] + "!", "note": "n"})
    return graph.add_edge(START, "reply").add_edge("reply", END).compile()


def test_states_of_other_keys():
    with pytest.raises(ConfigError, match=r"agent.input_key: .* several keys .allowed: question, answer, note"):
        LangChainAgent(quiz(Quiz))
    assert ask(quiz(Quiz), "what", input_key="question").response == "what!"
    assert ask(quiz(Quiz), "what", input_key="question", output_key="note").response == "n"
    assert ask(quiz(Quiz), {"question": "why"}, input_key="question").response == "why!"


def test_a_target_without_ainvoke_runs_on_a_thread():
    class Old:
        def invoke(self, given, config=None):
            return given.upper()

    assert ask(Old(), "hi", sync=True).response == "HI"


@pytest.mark.parametrize("target", [FakeModel, object(), "os:sep"])
def test_what_is_no_runnable(target):
    with pytest.raises(ConfigError, match=r"agent\.target: .* .allowed: a Runnable"):
        LangChainAgent(target)


def test_the_type_is_found_from_the_target():
    config = {"dataset": {"path": "x"}, "metrics": ["exact_match"]}
    for target in (lamp_graph(), FakeModel(), create_agent(FakeModel(), [])):
        parsed = EvaluationConfig.parse({**config, "agent": {"target": target}})
        assert agent_type(parsed.agent) == "langchain"


MESSAGES = [
    HumanMessage("earlier", id="0"),
    AIMessage("", tool_calls=[{"name": "old", "args": {}, "id": "1"}]),
    HumanMessage("now", id="sent"),
    AIMessage("", tool_calls=[{"name": "a", "args": {"x": 1}, "id": "2"}], usage_metadata=USAGE,
              invalid_tool_calls=[{"name": "b", "args": "{oops", "id": "3", "error": None}]),
    ToolMessage("ok", tool_call_id="2", artifact=[Document("page")]),
    AIMessage([{"type": "text", "text": "do"}, {"type": "text", "text": "ne"}], usage_metadata=USAGE),
]  # fmt: skip


@pytest.mark.parametrize("form", [list, lambda m: [dumpd(x) for x in m], lambda m: [x.model_dump() for x in m]])
def test_messages_as_objects_and_as_they_are_dumped(form):
    found = answer_of({"messages": form(MESSAGES)}, sent="sent")
    assert json.loads(json.dumps(found)) == {
        "predicted_trajectory": [{"tool_name": "a", "tool_input": {"x": 1}}, {"tool_name": "b", "tool_input": "{oops"}],
        "response": "done",
        "usage": {"input_tokens": 10, "output_tokens": 4},
        "retrieved_context": [{"content": "page"}],
    }


def test_five_hundred_rows_of_a_graph_whose_nodes_block():
    """As many at once as are in flight, though all of the graph's functions are plain ones."""
    together = threading.Barrier(50, timeout=30)

    @tool
    def set_lamp(number: int) -> str:
        """Switches a lamp on, once fifty are asked for."""
        together.wait()
        return f"lamp {number} is on"

    rows = [
        {
            "prompt": f"lamp {i}",
            "reference": f"told: lamp {i} is on",
            "reference_trajectory": [{"tool_name": "set_lamp", "tool_input": {"number": i}}],
        }
        for i in range(500)
    ]
    metrics = ["exact_match", "trajectory_exact_match"]
    graph = create_agent(FakeModel(), [set_lamp])
    result = evaluate(rows, metrics, graph, agent={"max_in_flight": 100, "timeout": 60})
    assert result.summary_metrics["row_count"] == 500
    assert result.summary_metrics["exact_match/mean"] == 1.0
    assert result.summary_metrics["trajectory_exact_match/mean"] == 1.0
    assert (result.metrics_table["input_tokens"] == 10).all()


@pytest.mark.parametrize(
    ("usages", "counts"),
    [
        ([], None),
        ([None, {}], None),
        ([{"input_tokens": 5}, {"input_tokens": 1}], {"input_tokens": 6}),
        ([{"input_tokens": 5, "output_tokens": 1}, None], None),
        ([{"input_tokens": 5, "output_tokens": None}, {"input_tokens": 1, "output_tokens": 2}], {"input_tokens": 6}),
        ([{"input_tokens": 0, "output_tokens": 0}], {"input_tokens": 0, "output_tokens": 0}),
    ],
)
def test_tokens_that_a_model_does_not_say_are_unknown(usages, counts):
    assert sum_tokens(usages) == counts
