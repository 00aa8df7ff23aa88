"""Users' own metrics: Python functions of a row, sync or async, and objects with a `score` method.

    def word_count(row):
        return {"word_count": len(row["response"].split()), "first_word": row["response"].split()[0]}

    CustomMetric("word_count", word_count)              # the same class as in the Vertex SDK
    metrics: [{metric: "my_metrics:word_count"}]        # the same in a configuration; in full:
    metrics: [{metric: custom, name: words, metric_function: "my_metrics:word_count"}]

If a function fails on a row, only the score of that row is an error.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import orjson

from ...schemas.errors import ConfigError, RowError
from ...schemas.instance import Example, Trajectory
from ...schemas.json import Json
from ...schemas.result import Score, ScoreColumn
from ...schemas.trajectory import parse_trajectory
from .. import registry
from ..calls.call_each import call_each
from ..runtime.local_objects import original
from .base import Metric, ScoringBatch, failure_of

MAX_IN_FLIGHT = 64
_ALLOWED = "a number, a bool, a mapping {name: number, ...} or a Score"


class InvalidScore(ValueError):
    """A metric function returned a value that is not a score."""


@registry.register("metric", "custom")
@dataclass(frozen=True)
class CustomMetric(Metric):
    """The result of a Python function of the row.

    The function gets its own dict: the dataset's columns, response, predicted_trajectory and reference_trajectory
    (lists of {tool_name, tool_input}), latency_in_seconds, failure, instance_id and trial; if known also
    retrieved_context, usage and what else the agent returned. It returns a number or bool; or a mapping with the score
    under the metric's name, the function's name or "score", an optional text under "explanation", and other JSON
    values, which become the details; or a `Score`.

    Async functions run concurrently on an event loop; sync functions run one after the other, and on threads if they
    are slow.

    Attributes:
        name: Name of the metric.
        metric_function: The function, or "module:name" of it. A run calls it from several threads, unless
            `max_in_flight` is 1.
        max_in_flight: Maximum number of concurrent calls in one worker process.
    """

    name: str = ""
    metric_function: Callable[..., Any] | str = ""
    max_in_flight: int = MAX_IN_FLIGHT

    outputs: ClassVar[tuple[str, ...]] = ("explanation", "details")

    def __post_init__(self) -> None:
        if isinstance(self.metric_function, str):
            object.__setattr__(self, "metric_function", registry.load_object(self.metric_function, "metric_function"))
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight is {self.max_in_flight}, allowed: 1 or more")

    def score(self, example: Example) -> Score:
        return self.score_batch(ScoringBatch([example])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        calls = [partial(self._call, example) for example in batch.examples]
        results = call_each(calls, self.max_in_flight, is_async=_is_async(self._function))
        return ScoreColumn.of([self._score(*result) for result in results])

    @property
    def _function(self) -> Callable[..., Any]:
        return original(self.metric_function)  # a "module:name" was resolved in __post_init__

    def _call(self, example: Example) -> Any:
        return self._function(make_row(example))

    def _score(self, value: Any, error: BaseException | None) -> Score:
        if error is not None:
            return failure_of(error)
        function = self._function.func if isinstance(self._function, partial) else self._function
        keys = (self.name, self.name.rpartition(":")[2], getattr(function, "__name__", ""), "score")
        try:
            return to_score(value, tuple(filter(None, keys)))
        except InvalidScore as invalid:
            return Score.failed("invalid_score", str(invalid))
        except Exception as broken:  # the value may be any object, and its methods may raise anything
            return failure_of(broken)


@dataclass(frozen=True)
class ScoringObject(CustomMetric):
    """The result of an object's method `score(example)`, in any form that a function may return."""

    def _call(self, example: Example) -> Any:
        return self._function(example)


def as_metric(target: Any, name: str, params: Mapping[str, Any], where: str) -> Metric:
    """Converts an object given by the user to a metric.

    Args:
        target: A `Metric`, a class of metrics (created with `params`), an object or class with a method
            `score(example)`, or a function of the row (called with `params` by name; `max_in_flight` limits its calls).
        name: Output name of the metric.
        params: Further parameters from the configuration.
        where: Config key, for messages.

    Raises:
        ConfigError: The object is none of these, or does not accept the parameters.
    """
    if isinstance(target, type):
        target, params = _make(target, name, params, where), {}
    if isinstance(target, Metric) and not params:
        return target
    params = dict(params)
    function = getattr(target, "score", target)
    if isinstance(target, Metric) or not callable(function):
        found = f"{name} takes no parameters" if isinstance(target, Metric) else f"found {type(target).__name__}"
        allowed = "a function of the row, a Metric, or an object with score(example)"
        raise ConfigError(found, where=where, allowed="no parameters, since it is an object" if params else allowed)
    bound = params.pop("max_in_flight", MAX_IN_FLIGHT) if not _takes(function, "max_in_flight") else MAX_IN_FLIGHT
    _check_call(function, name, params, where)
    kind = CustomMetric if function is target else ScoringObject
    call = partial(function, **params) if params else function
    part = registry.Part(name, kind, {"name": name or getattr(function, "__name__", "custom"), "metric_function": call})
    return registry.build(part, {"max_in_flight": bound}, where)


def to_score(value: Any, names: tuple[str, ...]) -> Score:
    """Converts the value that a function returned to a score.

    Args:
        value: The returned value.
        names: Keys of the score in a mapping; the first one present counts.

    Raises:
        InvalidScore: The value is not a score.
    """
    if isinstance(value, Score):
        if value.value is None and value.label is None and value.status == "scored":
            raise InvalidScore("the function returned a Score with neither value nor label")
        number = None if value.value is None else _to_number(value.value)
        return replace(value, value=number, details=_to_json(value.details))
    if not isinstance(value, Mapping):
        return Score(_to_number(value))
    rest = dict(value)
    key = next((name for name in names if name in rest), None)
    if key is None:
        found = ", ".join(sorted(map(str, rest))) or "nothing"
        raise InvalidScore(f"the function returned a mapping with {found} (allowed: the key {names[0]!r} or 'score')")
    number = _to_number(rest.pop(key))
    explanation = rest.pop("explanation") if isinstance(rest.get("explanation"), str) else None
    return Score(number, explanation=explanation, details=_to_json(rest) if rest else None)


def make_row(example: Example) -> dict[str, Json]:
    """Builds the row for a metric function; a copy, so that changes by the function do not reach the tables."""
    instance, invocation = example.instance, example.invocation
    row = {**instance.row, **instance.fields}
    reference = row.get("reference_trajectory")
    if reference is not None:
        with suppress(RowError):  # a malformed trajectory is passed as the dataset has it
            row["reference_trajectory"] = _to_plain(parse_trajectory(reference))
    row["response"] = invocation.response
    row["predicted_trajectory"] = _to_plain(invocation.predicted_trajectory)
    row["latency_in_seconds"] = invocation.latency_in_seconds
    row["failure"] = int(not invocation.answered)
    if invocation.retrieved_context is not None:
        row["retrieved_context"] = [{"content": c.content, "doc_uri": c.doc_uri} for c in invocation.retrieved_context]
    if invocation.usage is not None:
        usage = invocation.usage
        row["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    also = {"instance_id": instance.instance_id, "trial": example.trial, **(invocation.extra or {})}
    return {key: _copy(value) for key, value in {**also, **row}.items()}


def _to_plain(trajectory: Trajectory | None) -> Json:
    if trajectory is None:
        return None
    return [{"tool_name": c.tool_name, "tool_input": {} if c.tool_input is None else c.tool_input} for c in trajectory]


def _copy(value: Json) -> Json:
    if type(value) is dict:
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if type(value) is list else value


def _to_number(value: Any) -> float:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    if not isinstance(value, numbers.Real):
        shown = f" {value!r}"[:200] if isinstance(value, str | bytes) else ""
        raise InvalidScore(f"the function returned {type(value).__name__}{shown} (allowed: {_ALLOWED})")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidScore(f"the function returned {number} (allowed: a finite number)")
    return number


def _to_json(value: Any) -> Json:
    """Converts details to JSON; numpy values become numbers, NaN becomes null."""
    if value is None:
        return None
    try:
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY))
    except (TypeError, ValueError) as error:
        raise InvalidScore(f"the function returned details that are no JSON: {error}") from None


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _make(target: type, name: str, params: Mapping[str, Any], where: str) -> Any:
    try:
        return registry.build(registry.Part(name or target.__name__, target, {}), params, where)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{target.__name__} cannot be created: {error}", where=where) from None


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return False


def _check_call(function: Any, name: str, params: Mapping[str, Any], where: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins without a signature: errors show on the first row
        return
    try:
        signature.bind({}, **params)
    except TypeError as error:
        raise ConfigError(f"{name} cannot be called with a row: {error}", where=where) from None
