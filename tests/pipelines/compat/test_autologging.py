"""An app of LangChain that MLflow logs by itself: what it logs is captured in the worker and scored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool

from evalbeam import genai_evaluate

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
USAGE = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}


class FakeModel(BaseChatModel):
    """A fake chat model: it looks up what the user asks, then answers."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=[{"type": "function", "function": {"name": t.name}} for t in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        call = {"name": "look_up", "args": {"about": messages[-1].text}, "id": "call-1"}
        asks = isinstance(messages[-1], HumanMessage)
        made = AIMessage("", tool_calls=[call]) if asks else AIMessage("Goethe wrote it.")
        return ChatResult(generations=[ChatGeneration(message=made.model_copy(update={"usage_metadata": USAGE}))])

    @property
    def _llm_type(self) -> str:
        return "fake"


class FakeRetriever(BaseRetriever):
    """A fake retriever with one document."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document("Goethe wrote Faust in Weimar.", metadata={"doc_uri": "faust.md"})]


@tool
def look_up(about: str) -> str:
    """Looks something up."""
    return FakeRetriever().invoke(about)[0].page_content


@pytest.fixture
def autologged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import mlflow

    from evalbeam.transforms.calls import capture

    monkeypatch.setattr(capture, "_broken", [])
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"file:{tmp_path}/store")
    mlflow.langchain.autolog()
    yield
    mlflow.langchain.autolog(disable=True)
    mlflow.set_tracking_uri(before)


def test_a_langchain_agent_is_scored_by_what_it_logs(autologged: None) -> None:
    app = create_agent(FakeModel(), [look_up], system_prompt="You are a librarian.")
    asked: list[str] = []

    def answer(question: str) -> str:
        return app.invoke({"messages": [{"role": "user", "content": question}]})["messages"][-1].content

    def kinds(trace: Any) -> int:
        return len([s for s in trace.data.spans if s.span_type in ("TOOL", "RETRIEVER", "CHAT_MODEL")])

    async def judge(messages: Any, schema: Any) -> dict[str, Any]:
        asked.append(messages[-1]["content"])
        return {"rationale": "so", "rating": "yes"}

    question = "Who wrote Faust?"
    calls = [{"name": "look_up", "arguments": {"about": question}}]
    data = [{"inputs": {"question": question}, "expectations": {"expected_tool_calls": calls}}]
    scorers = [kinds, "ToolCallCorrectness", "ToolCallEfficiency", "RetrievalGroundedness", "trajectory_exact_match"]
    found = genai_evaluate(data, scorers, answer, judges={"default": judge}).result_df.iloc[0]
    values = [found[f"{name}/value"] for name in ("kinds", "tool_call_correctness", "retrieval_groundedness")]
    assert values == [4.0, "yes", "yes"]
    assert found["trajectory_exact_match/value"] == 1.0
    assert found["retrieved_context"] == [{"content": "Goethe wrote Faust in Weimar.", "doc_uri": "faust.md"}]
    assert (found["input_tokens"], found["output_tokens"]) == (10, 4)
    assert len(asked) == 3
    shown = json.dumps({"type": "function", "function": {"name": "look_up"}}, separators=(",", ":"))
    assert [shown in text for text in asked].count(True) == 2
    assert all("Goethe wrote Faust in Weimar." in text for text in asked)
