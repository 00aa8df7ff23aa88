"""What metrics of users' functions have in common: their calls, the row they are given, and the scores they return."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import orjson

from ...schemas.errors import RowError
from ...schemas.instance import Example, Trajectory
from ...schemas.json import Json
from ...schemas.result import Score, ScoreColumn
from ...schemas.trajectory import parse_trajectory
from ...schemas.values import number_in
from .. import registry
from ..calls.call_each import call_each
from ..runtime.local_objects import original
from .base import Metric, ScoringBatch, failure_of

MAX_IN_FLIGHT = 64
_ALLOWED = "a number, a bool, a mapping {name: number, ...} or a Score"


class InvalidScore(ValueError):
    """A metric function returned a value that is not a score."""


@dataclass(frozen=True)
class FunctionMetric(Metric):
    """Base of metrics that call a user's function for each row; an exception is an error of that row's score.

    Attributes:
        name: Name of the metric.
        metric_function: The function, or "module:name" of it.
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
        results = call_each(calls, self.max_in_flight, is_async=registry.is_async(self._function))
        return ScoreColumn.of([self._score(*result) for result in results])

    @property
    def _function(self) -> Callable[..., Any]:
        return original(self.metric_function)  # a "module:name" was resolved in __post_init__

    @abstractmethod
    def _call(self, example: Example) -> Any:
        """Calls the function."""

    @abstractmethod
    def _read(self, value: Any) -> Score:
        """Converts the returned value to a score; raises InvalidScore if it is none."""

    def _score(self, value: Any, error: BaseException | None) -> Score:
        if error is not None:
            return failure_of(error)
        try:
            return self._read(value)
        except InvalidScore as invalid:
            return Score.failed("invalid_score", str(invalid))
        except Exception as broken:  # the value may be any object, and its methods may raise anything
            return failure_of(broken)


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
    number = _to_number(_untext(rest.pop(key)))
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


def _untext(value: Any) -> Any:
    """Returns the number that a text is; anything else unchanged."""
    number = number_in(value) if isinstance(value, str) else None
    return value if number is None else number


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
