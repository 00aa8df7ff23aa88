"""Scorers of MLflow and metric functions of Databricks: functions that are called by the names of their parameters.

    def is_short(outputs):
        return len(outputs) < 80

    @mlflow.genai.scorers.scorer
    def has_answer(inputs, outputs, expectations):
        return Feedback(value=expectations["expected_response"] in outputs, rationale="...")

Sources: `mlflow.genai.scorers.scorer`, and custom metrics of Databricks Agent Evaluation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...schemas.errors import RowError
from ...schemas.formats.databricks import EXPECTED
from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.result import Score
from ...schemas.values import json_or_text
from ..registry import parameters_of
from ._own import MAX_IN_FLIGHT, FunctionMetric, InvalidScore, make_row, to_score
from .base import Metric

_MLFLOW = ("inputs", "outputs", "expectations", "trace")
_DATABRICKS = (
    "request_id",
    "request",
    "response",
    "retrieved_context",
    "tool_calls",
    "custom_expected",
    "custom_inputs",
    "custom_outputs",
    *(name for name in EXPECTED if name != "expected_tool_calls"),
)
PARAMETERS = (*_MLFLOW, *_DATABRICKS)
"""Names of parameters by which MLflow 3 and Databricks call scorers."""
_YES_NO = {"yes": 1.0, "no": 0.0}


def is_scorer(target: Any) -> bool:
    """Returns true if an object is a scorer of MLflow, such as the result of its decorator."""
    return any(c.__name__ == "Scorer" and c.__module__.startswith("mlflow.") for c in type(target).__mro__)


def as_scorer(target: Any, name: str, params: Mapping[str, Any]) -> ScorerMetric | None:
    """Converts an object given by the user to a metric if it is called by names; returns `None` if it is not.

    Args:
        target: Any object.
        name: Output name of the metric; default: the name of the scorer.
        params: Further parameters from the configuration; `max_in_flight` limits concurrent calls.
    """
    bound = {key: value for key, value in params.items() if key != "max_in_flight"}
    if isinstance(target, type | Metric) or not callable(target) or not _takes_names(target, bound):
        return None
    own = name or getattr(target, "name", "") or getattr(target, "__name__", "scorer")
    call = partial(target, **bound) if bound else target
    return ScorerMetric(own, call, params.get("max_in_flight", MAX_IN_FLIGHT))


def _takes_names(function: Any, bound: Mapping[str, Any]) -> bool:
    """Returns true if a function is called by name: its open parameters are all in `PARAMETERS`.

    Args:
        function: Any callable.
        bound: Parameters that the configuration gives.
    """
    if is_scorer(function):
        return True
    named = [p for p in parameters_of(function).values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    needed = [p.name for p in named if p.default is p.empty and p.name not in bound]
    positional = any(p.kind is p.POSITIONAL_ONLY for p in named)
    return bool(needed) and not positional and all(name in PARAMETERS for name in needed)


@dataclass(frozen=True)
class ScorerMetric(FunctionMetric):
    """The result of a scorer, which gets those that it names of inputs, outputs, expectations and trace.

    `inputs` and `outputs` are as the dataset has them or as the agent was given and returned them; `expectations` holds
    the ground truth of the row; `trace` is MLflow's Trace if mlflow is imported, else its JSON, and None without one.
    Functions may name the fields of Databricks Agent Evaluation instead (request, response, retrieved_context ...).

    A result is a number, a bool, "yes" or "no" (1 and 0), a Feedback of MLflow, a list of them, or None for no
    assessment. Other text stands in the details. Of several feedbacks the score is the one with the scorer's name, and
    the details have all by name. A scorer of sessions gets the traces in the column `session` and skips rows without.
    """

    def _call(self, example: Example) -> Any:
        function: Any = self._function
        given = _Given(example)
        if getattr(function, "is_session_level_scorer", False):
            session, expectations = given.of("session"), given.of("expectations")
            if session is None:
                return Score.skipped("missing_session", "the row is not the first of a session of traces")
            return function.run(session=session, expectations=expectations)
        if is_scorer(function):
            return function.run(**{name: given.of(name) for name in _MLFLOW})
        names = parameters_of(function)
        every = any(p.kind is p.VAR_KEYWORD for p in names.values())
        return function(**{name: given.of(name) for name in PARAMETERS if every or name in names})

    def _read(self, value: Any) -> Score:
        return read_feedback(value, self.name)


def read_feedback(value: Any, name: str) -> Score:
    """Converts the result of a scorer to a score.

    Args:
        value: The result.
        name: Name of the scorer.

    Raises:
        InvalidScore: It is not a result that a scorer may have.
    """
    if value is None:
        return Score(status="not_applicable")
    if isinstance(value, str):
        score = _YES_NO.get(value.strip().lower())
        return Score(label=value, details={"value": value}) if score is None else Score(score)
    if isinstance(value, list):
        return _read_several(value, name)
    if hasattr(value, "rationale") and hasattr(value, "value"):
        return _read_one(value, name)
    return to_score(value, (name, "score"))


def _read_one(feedback: Any, name: str) -> Score:
    """Reads a Feedback of MLflow or an Assessment of Databricks."""
    error = getattr(feedback, "error", None)
    if error is not None:
        code, message = getattr(error, "error_code", None), getattr(error, "error_message", None)
        return Score.failed(str(code or "SCORER_ERROR"), str(message or error))
    found = read_feedback(feedback.value, name)
    why, details = feedback.rationale, dict(getattr(feedback, "metadata", None) or {})
    return Score(found.value, found.label, why, details=details or found.details, status=found.status)


def _read_several(values: list[Any], name: str) -> Score:
    named = {str(getattr(v, "name", "")): v for v in values}
    if not values:
        return Score(status="not_applicable")
    if len(values) == 1:
        return _read_one(values[0], name) if hasattr(values[0], "value") else read_feedback(values[0], name)
    if "" in named or len(named) < len(values):
        raise InvalidScore(f"the scorer returned {len(values)} values (allowed: one, or a Feedback for each name)")
    details: dict[str, Json] = {n: {"value": v.value, "rationale": v.rationale} for n, v in named.items()}
    if name not in named:
        found = ", ".join(named)
        raise InvalidScore(f"the scorer returned feedback on {found} (allowed: one of them named {name!r}, the score)")
    own = _read_one(named[name], name)
    return Score(own.value, own.label, own.explanation, details=details, status=own.status, error=own.error)


class _Given:
    """The values that a scorer may name, each a copy made when it is asked for."""

    def __init__(self, example: Example) -> None:
        self._example = example
        self._row = make_row(example)

    def of(self, name: str) -> Any:
        """Returns the value of a parameter; `None` if the row does not have it."""
        found: Callable[[], Any] | None = getattr(self, f"_{name}", None)
        return self._row.get(name) if found is None else found()

    def _inputs(self) -> Any:
        row = self._row
        given = next((row[n] for n in ("inputs", "request", "prompt") if row.get(n) is not None), None)
        parsed = json_or_text(given) if row.get("inputs") is not None else given
        return parsed if isinstance(parsed, dict) else given

    def _outputs(self) -> Any:
        invocation, row = self._example.invocation, self._row
        if invocation.attempts:
            return (invocation.extra or {}).get("outputs", invocation.response)
        dataset = self._example.instance.row
        return row["outputs"] if dataset.get("outputs") is not None else dataset.get("response", invocation.response)

    def _expectations(self) -> dict[str, Any]:
        custom = json_or_text(self._row.get("custom_expected"))
        own = custom if isinstance(custom, dict) else {}
        return own | {name: self._row[name] for name in EXPECTED if self._row.get(name) is not None}

    def _session(self) -> Any:
        traces = self._row.get("session")
        return [load_trace(trace) for trace in traces] if isinstance(traces, list) and traces else None

    def _trace(self) -> Any:
        row = self._row
        return load_trace(row if "info" in row and "data" in row else row.get("trace"))

    def _request(self) -> Any:
        return self._row.get("request", self._inputs())

    def _tool_calls(self) -> Any:
        told = self._row.get("tool_calls")
        calls = self._row.get("predicted_trajectory") or ()
        return told or [{"tool_name": c["tool_name"], "tool_call_args": c["tool_input"]} for c in calls]

    def _request_id(self) -> Any:
        return self._row.get("request_id", self._example.instance.instance_id)


def load_trace(value: Any) -> Any:
    """Returns MLflow's Trace of a trace in JSON if mlflow is imported, else the JSON object; `None` without a trace."""
    value = json_or_text(value)
    if not isinstance(value, dict):
        return None
    if "mlflow" not in sys.modules or "info" not in value:
        return value
    from mlflow.entities import Trace

    try:
        return Trace.from_dict({"info": value["info"], "data": value["data"]})
    except Exception as error:  # traces of other versions may lack what this one needs
        raise RowError("malformed_trace", f"MLflow cannot read the trace: {type(error).__name__}: {error}") from None
