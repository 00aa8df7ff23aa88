"""Agents as MLflow calls them."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from evalbeam import ConfigError
from evalbeam.pipelines.run.parts import agent_type
from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.config.evaluation import AgentConfig
from evalbeam.transforms import registry
from evalbeam.transforms.agents.base import invocation_of, read_answer
from evalbeam.transforms.agents.mlflow import MlflowAgent

CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}


def ask(target: Any, given: Any = "Hi") -> Any:
    """The invocation that a call of the agent becomes."""
    agent = MlflowAgent(target)
    answer = agent.connect()(given, "key")
    raw = asyncio.run(answer) if inspect.isawaitable(answer) else answer
    return invocation_of(Outcome(read_answer(agent.read(raw), 1 << 20)))


class Pyfunc:
    def predict(self, model_input: Any) -> Any:
        return [{"choices": [{"message": {"content": str(model_input["messages"][0]["content"])}}]}]


class Waiting:
    async def predict(self, model_input: Any) -> Any:
        await asyncio.sleep(0)
        return model_input["messages"][0]["content"]


@pytest.mark.parametrize("target", [Pyfunc(), Waiting(), lambda request: request["messages"][0]["content"]])
def test_text_reaches_the_agent_as_a_message(target: Any) -> None:
    assert ask(target).response == "Hi"


def test_an_object_reaches_it_unchanged() -> None:
    assert json.loads(ask(json.dumps, {"query": "Hi"}).response) == {"query": "Hi"}


def test_messages_carry_calls_and_tokens() -> None:
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "20"},
        {"role": "assistant", "content": "It is 20."},
    ]
    found = ask(lambda request: {"messages": messages, "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    assert found.response == "It is 20."
    assert [(c.tool_name, c.tool_input) for c in found.predicted_trajectory] == [("look", {"at": 1})]
    assert (found.usage.input_tokens, found.usage.output_tokens) == (5, 2)


def test_objects_of_mlflow_are_answers() -> None:
    from mlflow.types.agent import ChatAgentMessage, ChatAgentResponse

    message = ChatAgentMessage(role="assistant", content="Ho", id="1")
    assert ask(lambda request: ChatAgentResponse(messages=[message])).response == "Ho"
    assert ask(lambda request: {"messages": [message]}).response == "Ho"


def test_a_trace_beside_the_answer_is_read() -> None:
    documents = [{"page_content": "x", "metadata": {"doc_uri": "u"}}]
    spans = [
        {"span_id": "a", "name": "rag", "start_time_unix_nano": 1, "attributes": {}},
        {
            "span_id": "b",
            "parent_span_id": "a",
            "start_time_unix_nano": 2,
            "attributes": {"mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": json.dumps(documents)},
        },
    ]
    trace = {"info": {"trace_id": "tr-1"}, "data": {"spans": spans}}
    for beside in ({"trace": trace}, {"databricks_output": {"trace": trace}}):
        found = ask(lambda request, beside=beside: {"content": "Ho", **beside})
        assert found.response == "Ho"
        assert [(c.content, c.doc_uri) for c in found.retrieved_context] == [("x", "u")]


def test_answers_of_a_function_are_taken_as_they_are() -> None:
    found = ask(lambda request: {"response": "Ho", "retrieved_context": ["x"]})
    assert (found.response, found.retrieved_context[0].content) == ("Ho", "x")


@pytest.mark.parametrize("target", [Pyfunc, 5])
def test_what_cannot_be_called_is_refused(target: Any) -> None:
    with pytest.raises(ConfigError, match=r"agent\.target"):
        MlflowAgent(target)


@pytest.mark.filterwarnings("ignore:.*AnyType")  # as MLflow's module is imported
def test_a_responses_agent_is_given_input() -> None:
    from mlflow.pyfunc import ResponsesAgent
    from mlflow.types.responses import ResponsesAgentResponse

    class Echo(ResponsesAgent):
        def predict(self, request: Any) -> Any:
            said = ", ".join(str(m.content) for m in request.input)
            return ResponsesAgentResponse(output=[self.create_text_output_item(said, "1")])

    assert ask(Echo()).response == "Hi"
    two = {"messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "you"}]}
    assert ask(Echo(), two).response == "Hi, you"
    assert ask(Echo(), {"input": [{"role": "user", "content": "Ho"}]}).response == "Ho"


def test_the_whole_answer_is_kept_for_scorers() -> None:
    assert ask(lambda request: {"content": "Ho", "sure": True}).extra == {"outputs": {"content": "Ho", "sure": True}}
    assert ask(lambda request: "Ho").extra is None


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_models_of_mlflow_are_loaded_by_their_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    class Model(mlflow.pyfunc.PythonModel):
        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            return {"content": model_input["messages"][0]["content"]}

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")
    try:
        with mlflow.start_run():
            info = mlflow.pyfunc.log_model(name="m", python_model=Model(), pip_requirements=["mlflow-skinny"])
        assert agent_type(AgentConfig(target=info.model_uri)) == "mlflow"
        assert ask(info.model_uri).response == "Hi"
    finally:
        mlflow.set_tracking_uri(before)


def test_models_need_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "has_module", lambda name: False)
    with pytest.raises(ConfigError, match=r"evalbeam\[mlflow\]"):
        MlflowAgent("models:/agent/1")
