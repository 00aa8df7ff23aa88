"""The agent type `mlflow`, called as in MLflow and Databricks Agent Evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...schemas.errors import ConfigError
from ...schemas.formats.messages import agent_input, response_text, responses_input, tool_calls_of, trace_of
from ...schemas.json import Json
from ..dialects.traces_otel.derive import fields_of
from ..dialects.traces_otel.spans import parse_trace
from ..registry import is_async, require_module
from .base import Agent, Ask, load_target, register

URIS = ("models:/", "runs:/")
"""Beginnings of the URIs of MLflow's models."""
_OURS = ("response", "predicted_trajectory", "turns")


@register("agent", "mlflow")
@dataclass(frozen=True)
class MlflowAgent(Agent):
    """Calls a function, or the `predict` method of an object such as an MLflow pyfunc model or a ChatAgent.

    The request is an object; text becomes `{"messages": [{"role": "user", "content": text}]}`. The answer is text or
    any form of a chat response (`choices`, `messages`, `content`, `output`), as an object, a list of one, or a pydantic
    model. Tool calls in its messages become the predicted trajectory, and its `usage` the tokens. A trace
    (`trace` or `databricks_output.trace`) supplies fields that the response lacks. A mapping with the keys of a
    function's answer is used unchanged. Scorers get the whole answer as `outputs`.

    Attributes:
        target: The function or object, or `"module:name"` of it; or the URI of a model, `"models:/..."` or
            `"runs:/..."`, which each worker process loads through MLflow.
        gives: "request" for one argument, the request (a ResponsesAgent gets messages as its `input`); "inputs" for an
            argument by name for each key of the request, as MLflow 3 calls `predict_fn`.
    """

    target: Any
    gives: Literal["request", "inputs"] = "request"

    @classmethod
    def claims(cls, target: Any) -> bool:
        return isinstance(target, str) and target.startswith(URIS)

    def __post_init__(self) -> None:
        if self.claims(self.target):
            require_module("mlflow", "mlflow", "a model of MLflow", "agent.target")
            return
        found = load_target(self.target)
        if isinstance(found, type) or not callable(getattr(found, "predict", found)):
            what = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
            raise ConfigError(
                f"the target is {what}", where="agent.target", allowed="a function, or an object with predict"
            )

    def connect(self) -> Ask:
        found = _load_model(self.target) if self.claims(self.target) else load_target(self.target)
        predict: Callable[..., Any] = getattr(found, "predict", found)
        form = responses_input if _takes_input(found) else agent_input

        def ask(given: Json, key: str) -> Any:
            return predict(**_named(given)) if self.gives == "inputs" else predict(form(given))

        async def ask_async(given: Json, key: str) -> Any:
            return await ask(given, key)

        return ask_async if is_async(predict) else ask

    def read(self, raw: Any) -> Any:
        raw = _to_plain(raw)
        if isinstance(raw, list) and len(raw) == 1:  # as the predict of a pyfunc model returns it
            raw = _to_plain(raw[0])
        if isinstance(raw, list):
            return {"response": raw, "outputs": raw}
        if not isinstance(raw, Mapping):
            return raw
        raw = {k: [_to_plain(e) for e in v] if isinstance(v, list) else _to_plain(v) for k, v in raw.items()}
        whole = {"outputs": {k: v for k, v in raw.items() if k not in ("trace", "databricks_output")}}
        if any(key in raw for key in _OURS):
            return {**raw, **whole}
        trace = trace_of(raw)
        told = {} if trace is None else fields_of(parse_trace(trace))
        answer = {k: told.get(k) for k in ("retrieved_context", "predicted_trajectory", "usage")}
        answer |= {"response": response_text(raw), "usage": raw.get("usage") or answer["usage"]}
        if calls := tool_calls_of(raw):
            answer["predicted_trajectory"] = calls
        return {**answer, **whole, **({"trace": trace} if trace else {})}


def _load_model(uri: str) -> Any:
    import mlflow

    return mlflow.pyfunc.load_model(uri)


def _takes_input(target: Any) -> bool:
    """Returns true if an object is a ResponsesAgent of MLflow, or a loaded model of one."""
    if any(c.__name__ == "ResponsesAgent" and c.__module__.startswith("mlflow.") for c in type(target).__mro__):
        return True
    metadata = getattr(getattr(target, "metadata", None), "metadata", None)
    return isinstance(metadata, Mapping) and metadata.get("task") == "agent/v1/responses"


def _named(given: Json) -> dict[str, Json]:
    if not isinstance(given, dict):
        found = type(given).__name__
        raise ValueError(f"the inputs are {found} (allowed: an object, the arguments of predict_fn by name)")
    return given


def _to_plain(value: Any) -> Any:
    """Converts a pydantic model or an MLflow object to a mapping; returns other values unchanged."""
    for method in ("model_dump", "to_dict"):
        if callable(found := getattr(value, method, None)):
            return found()
    return value
