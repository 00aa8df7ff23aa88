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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.instance import Example
from ...schemas.result import Score
from .. import registry
from ._own import MAX_IN_FLIGHT, FunctionMetric, make_row, to_score
from .base import Metric


@registry.register("metric", "custom")
@dataclass(frozen=True)
class CustomMetric(FunctionMetric):
    """The result of a Python function of the row.

    The function gets its own dict: the dataset's columns, response, predicted_trajectory and reference_trajectory
    (lists of {tool_name, tool_input}), latency_in_seconds, failure, instance_id and trial; if known also
    retrieved_context, usage and what else the agent returned. It returns a number or bool; or a mapping with the score
    under the metric's name, the function's name or "score", an optional text under "explanation", and other JSON
    values, which become the details; or a `Score`. In a mapping the score may be text, as "4".

    Async functions run concurrently on an event loop; sync functions run one after the other, and on threads if they
    are slow.

    Attributes:
        name: Name of the metric.
        metric_function: The function, or "module:name" of it. A run calls it from several threads, unless
            `max_in_flight` is 1.
        max_in_flight: Maximum number of concurrent calls in one worker process.
    """

    def _call(self, example: Example) -> Any:
        return self._function(make_row(example))

    def _read(self, value: Any) -> Score:
        function = self._function.func if isinstance(self._function, partial) else self._function
        keys = (self.name, self.name.rpartition(":")[2], getattr(function, "__name__", ""), "score")
        return to_score(value, tuple(filter(None, keys)))


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
        target, params = registry.build(registry.Part(name or target.__name__, target, {}), params, where), {}
    if isinstance(target, Metric) and not params:
        return target
    params = dict(params)
    function = getattr(target, "score", target)
    if isinstance(target, Metric) or not callable(function):
        found = f"{name} takes no parameters" if isinstance(target, Metric) else f"found {type(target).__name__}"
        allowed = "a function of the row, a Metric, or an object with score(example)"
        raise ConfigError(found, where=where, allowed="no parameters, since it is an object" if params else allowed)
    takes_it = "max_in_flight" in registry.parameters_of(function)
    bound = MAX_IN_FLIGHT if takes_it else params.pop("max_in_flight", MAX_IN_FLIGHT)
    _check_call(function, name, params, where)
    kind = CustomMetric if function is target else ScoringObject
    call = partial(function, **params) if params else function
    part = registry.Part(name, kind, {"name": name or getattr(function, "__name__", "custom"), "metric_function": call})
    return registry.build(part, {"max_in_flight": bound}, where)


def _check_call(function: Any, name: str, params: Mapping[str, Any], where: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins without a signature: errors show on the first row
        return
    try:
        signature.bind({}, **params)
    except TypeError as error:
        raise ConfigError(f"{name} cannot be called with a row: {error}", where=where) from None
