"""The agent type `langchain`: an object with `invoke` and `ainvoke`, of LangChain or LangGraph."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ..registry import require_module
from .base import Agent, Ask, load_target, register
from .forms.langchain import answer_of, read_chunks, sum_tokens

_INPUTS = ("messages", "input")


@register("agent", "langchain")
@dataclass(frozen=True)
class LangChainAgent(Agent):
    """Calls a LangChain Runnable or a LangGraph graph with `ainvoke`, or with `invoke` if there is no `ainvoke`.

    A text prompt is converted to the target's input schema: a state with `messages`, a mapping of one key, or text.
    A prompt that is a list of messages or a mapping (JSON in the dataset) is passed unchanged. The response is the text
    of the last message, or of the state's `output` or `answer`. The trajectory is the tool calls of the new messages
    (arguments that cannot be parsed stay as they are), or the tools that ran if there are none. The retrieved context
    is what retrievers returned, or the documents in tool messages and in the output. Tokens are summed over all model
    calls. Each call has its own `thread_id` for a graph's checkpointer.

    Attributes:
        target: The Runnable, or `"module:name"` of it.
        input_key: Input key for the prompt, if the schema does not determine it.
        output_key: Output key of the response, if it is not one of `output`, `answer`, `response`, `result`, `text`.
    """

    target: Any
    input_key: str | None = None
    output_key: str | None = None

    @classmethod
    def claims(cls, target: Any) -> bool:
        other = isinstance(target, str) or hasattr(target, "query")
        return not other and all(callable(getattr(target, name, None)) for name in ("invoke", "ainvoke"))

    def __post_init__(self) -> None:
        found = load_target(self.target)
        if isinstance(found, type) or not callable(getattr(found, "invoke", None)):
            what = f"the class {found.__name__}" if isinstance(found, type) else f"{type(found).__name__}"
            shown = self.target if isinstance(self.target, str) else "the target"
            allowed = "a Runnable of LangChain or a compiled graph of LangGraph"
            raise ConfigError(f"{shown} is {what}", where="agent.target", allowed=allowed)
        _choose_input_key(found, self.input_key)

    def connect(self) -> Ask:
        target, output_key = load_target(self.target), self.output_key
        key = _choose_input_key(target, self.input_key)
        watcher = _make_watcher()

        def begin(given: Json) -> tuple[Any, str, Any, dict[str, Any]]:
            sent, watch = uuid.uuid4().hex, watcher()
            config = {"callbacks": [watch], "configurable": {"thread_id": sent}}
            return _as_input(given, key, sent), sent, watch, config

        def ask(given: Json, _: str) -> Any:
            state, sent, watch, config = begin(given)
            return watch.complete(answer_of(target.invoke(state, config), output_key, sent))

        async def ask_async(given: Json, _: str) -> Any:
            state, sent, watch, config = begin(given)
            return watch.complete(answer_of(await target.ainvoke(state, config), output_key, sent))

        return ask_async if callable(getattr(target, "ainvoke", None)) else ask


def _choose_input_key(target: Any, asked: str | None) -> str | None:
    """Returns the input key for the prompt, or `None` if the target takes text.

    Raises:
        ConfigError: There are several keys, and neither a usual one nor a single required one is among them.
    """
    if asked is not None:
        return asked
    keys, needed = _list_input_keys(target)
    usual = next((key for key in _INPUTS if key in keys), None)
    if usual is not None or len(keys) <= 1:
        return usual or next(iter(keys), None)
    if len(needed) == 1:
        return needed[0]
    raise ConfigError("the target takes several keys", where="agent.input_key", allowed=", ".join(keys))


def _list_input_keys(target: Any) -> tuple[list[str], list[str]]:
    """Returns (allowed input keys, required input keys) of the target; both are empty if the input is no mapping."""
    try:
        schema = target.get_input_jsonschema()
    except Exception:  # of types without a schema: a graph's state may still be annotated
        state = getattr(getattr(target, "builder", None), "input_schema", None)
        return list(getattr(state, "__annotations__", {})), []
    keys: list[str] = list(schema.get("properties") or ()) if schema.get("type") == "object" else []
    return ([] if keys == ["root"] else keys), list(schema.get("required", ()))


def _as_input(given: Json, key: str | None, sent: str) -> Any:
    """Converts a prompt to the target's input; the last message gets the id `sent`."""
    if isinstance(given, Mapping):
        return given
    if key == "messages":
        from langchain_core.messages import convert_to_messages

        messages = convert_to_messages(given if isinstance(given, list) else [("user", given)])
        if messages:
            messages[-1].id = sent
        return {"messages": messages}
    return given if key is None else {key: given}


def _make_watcher() -> Any:
    """Makes a callback class that records tools, passages and usage of one call, nested calls included."""
    require_module("langchain_core", "langchain", "an agent of type langchain", "agent.type")
    from langchain_core.callbacks import BaseCallbackHandler

    class Watch(BaseCallbackHandler):
        run_inline = True
        ignore_chain = ignore_retry = ignore_custom_event = True  # type: ignore[assignment]

        def __init__(self) -> None:
            self.tools: list[Any] = []
            self.passages: list[Any] = []
            self.usage: list[Any] = []

        def on_tool_start(self, serialized: Any, input_str: str, **more: Any) -> None:
            name, given = more.get("name") or (serialized or {}).get("name"), more.get("inputs")
            self.tools.append({"tool_name": name, "tool_input": input_str if given is None else given})

        def on_retriever_end(self, documents: Any, **_: Any) -> None:
            self.passages += read_chunks(documents)

        def on_llm_end(self, response: Any, **_: Any) -> None:
            for generations in response.generations:
                self.usage += [getattr(getattr(g, "message", None), "usage_metadata", None) for g in generations]

        def complete(self, answer: Any) -> Any:
            """Adds what the callbacks recorded to the answer."""
            if not isinstance(answer, Mapping) or "response" not in answer:
                return answer
            seen = {**answer, "predicted_trajectory": answer.get("predicted_trajectory") or self.tools}
            if self.passages:
                seen["retrieved_context"] = self.passages
            usage = sum_tokens(self.usage)
            return {**seen, "usage": usage} if usage else seen

    return Watch
