"""Tool-call metrics: validity of the predicted tool call, and agreement with the reference.

Prediction and reference are `{content, tool_calls: [{name, arguments: {}}]}`, as JSON text or object; `tool_calls` may
itself be JSON text. If the prediction has another form, the agent's trajectory is used instead; without a trajectory
the prediction is unparseable, and all four metrics are 0. An unparseable reference is an error of the three metrics
that need it.

The definitions are those of Vertex AI's evaluation service. By default only the first calls are compared, as in the
service; `calls: all` compares all of them. Values are compared as JSON, strictly by type and character.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from ...schemas.instance import Example
from ...schemas.json import Json
from ...schemas.result import Score, ScoreColumn
from ...schemas.values import json_or_text
from .base import Metric, ScoringBatch, failure_of, register
from .kernels.matching import best_assignment, json_equal

_FORM = '{"content": ..., "tool_calls": [{"name": ..., "arguments": {...}}]}'
_NO_MESSAGE = Score.failed("unparseable_reference", f"the reference is not of the form {_FORM}")


class Call(NamedTuple):
    """A tool call as given: `name` and `arguments` may be any value, and are `None` if missing."""

    name: Any
    arguments: Any

    @property
    def valid(self) -> bool:
        """True if it has a non-empty name and an object of arguments."""
        return isinstance(self.name, str) and bool(self.name) and isinstance(self.arguments, dict)


@dataclass(frozen=True)
class ToolCallMetric(Metric):
    """Base of the metrics of this family.

    Attributes:
        calls: "first" compares only the first calls of prediction and reference; "all" compares all calls in any order,
            paired one-to-one for the highest score.
        decimals: Number of decimals of the score (the Vertex service shows 2); default: not rounded.
    """

    calls: Literal["first", "all"] = "first"
    decimals: int | None = None

    inputs: ClassVar[tuple[str, ...]] = ("prediction", "reference")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)

    def score(self, example: Example) -> Score:
        return self.score_batch(ScoringBatch([example])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        predictions = batch.share("tool_call_predictions", lambda: [_read_prediction(e) for e in batch.examples])
        references = self._references(batch)
        column = ScoreColumn([None] * len(predictions))
        cut = 1 if self.calls == "first" else None
        for i, (predicted, reference) in enumerate(zip(predictions, references, strict=True)):
            if isinstance(reference, Score):
                column.put(i, reference)
                continue
            try:
                value, details = (0.0, None) if predicted is None else self._value(predicted[:cut], reference[:cut])
            except Exception as error:  # arguments nested deeper than Python can compare
                column.put(i, failure_of(error))
                continue
            column.values[i] = value if self.decimals is None else round(value, self.decimals)
            if details is not None:
                column.details[i] = details
        return column

    def _references(self, batch: ScoringBatch) -> Sequence[list[Call] | Score]:
        return batch.share("tool_call_references", lambda: [_read_reference(e) for e in batch.examples])

    @abstractmethod
    def _value(self, predicted: list[Call], reference: list[Call]) -> tuple[float, Json]:
        """Returns (score, details)."""


@register("metric", "tool_call_valid")
@dataclass(frozen=True)
class ToolCallValid(ToolCallMetric):
    """1 if the predicted call has a non-empty name and an object of arguments; else 0.

    With `calls: all` every call must be valid. The reference is not used. A prediction without calls scores 0.
    """

    inputs: ClassVar[tuple[str, ...]] = ("prediction",)
    binary: ClassVar[bool] = True

    def _references(self, batch: ScoringBatch) -> Sequence[list[Call] | Score]:
        return [[]] * len(batch.examples)

    def _value(self, predicted: list[Call], reference: list[Call]) -> tuple[float, Json]:
        return float(bool(predicted) and all(call.valid for call in predicted)), None


@register("metric", "tool_name_match")
@dataclass(frozen=True)
class ToolNameMatch(ToolCallMetric):
    """1 if the predicted call has the name of the reference call; else 0.

    With `calls: all` the names must be the same, each as often. If neither has a call, the score is 1.
    """

    binary: ClassVar[bool] = True

    def _value(self, predicted: list[Call], reference: list[Call]) -> tuple[float, Json]:
        names, wanted = [call.name for call in predicted], [call.name for call in reference]
        if names == wanted:
            return 1.0, None
        same = len(names) == len(wanted) > 1 and all(isinstance(name, str) for name in names)
        return float(same and sorted(names) == sorted(wanted)), None


@dataclass(frozen=True)
class ToolParameterMatch(ToolCallMetric):
    """Base of the metrics that count parameters.

    Attributes:
        denominator: "reference": the reference's parameters; "union": additionally the prediction's parameters that the
            reference lacks, so that invented parameters lower the score.
    """

    denominator: Literal["reference", "union"] = "reference"
    outputs: ClassVar[tuple[str, ...]] = ("details",)
    values_matter: ClassVar[bool] = False

    def _value(self, predicted: list[Call], reference: list[Call]) -> tuple[float, Json]:
        usable = [
            c if c.arguments is not None else Call(c.name, {})
            for c in predicted
            if c.arguments is None or isinstance(c.arguments, dict)
        ]
        if reference and not usable:
            return 0.0, None
        count = _Count(self.calls == "all")
        for p, r in _pair_calls(usable, reference, self.values_matter):
            count.add(p, r, self.values_matter)
        total = count.total + (len(count.extra) if self.denominator == "union" else 0)
        return (count.matched / total if total else 1.0), count.details()


@register("metric", "tool_parameter_key_match")
@dataclass(frozen=True)
class ToolParameterKeyMatch(ToolParameterMatch):
    """Share of reference parameters whose name is in the predicted call, in [0, 1].

    1 if the reference has no parameters; 0 if the reference has a call and the prediction has none. Tool names are not
    compared. The details list missing and extra parameters.
    """


@register("metric", "tool_parameter_kv_match")
@dataclass(frozen=True)
class ToolParameterKvMatch(ToolParameterMatch):
    """Share of reference parameters whose name and value are in the predicted call, in [0, 1].

    Otherwise as tool_parameter_key_match. Values are compared as JSON (1 == 1.0, "2" != 2). The details also have the
    wrong values.

    Attributes:
        use_strict_string_match: Accepted for compatibility with the service; it has no effect there either.
    """

    use_strict_string_match: bool = True
    values_matter: ClassVar[bool] = True


@dataclass
class _Count:
    """Counts parameters over the pairs of a row; with `qualified`, details name them `tool.parameter`."""

    qualified: bool
    matched: int = 0
    total: int = 0
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    wrong: dict[str, Json] = field(default_factory=dict)

    def add(self, p: Call | None, r: Call | None, values_matter: bool) -> None:
        given = p.arguments if p is not None else {}
        wanted = r.arguments if r is not None else {}
        self.total += len(wanted)
        for key, value in wanted.items():
            if key not in given:
                self.missing.append(self._label(r, key))
            elif not values_matter or json_equal(given[key], value):
                self.matched += 1
            else:
                self.wrong[self._label(r, key)] = {"predicted": given[key], "reference": value}
        self.extra += [self._label(p, key) for key in given if key not in wanted]

    def details(self) -> Json:
        if not (self.missing or self.extra or self.wrong):
            return None
        found = {"missing_params": sorted(self.missing), "extra_params": sorted(self.extra), "wrong_values": self.wrong}
        return {name: value for name, value in found.items() if value}

    def _label(self, call: Call | None, key: str) -> str:
        return f"{call.name}.{key}" if self.qualified and call is not None else key


def _pair_calls(
    predicted: list[Call], reference: list[Call], values_matter: bool
) -> list[tuple[Call | None, Call | None]]:
    """Pairs calls one-to-one for most matches, then most common parameters, then most common names.

    Calls that are left over are paired with `None`.
    """
    if len(predicted) <= 1 and len(reference) <= 1:
        return [((predicted or [None])[0], (reference or [None])[0])]
    base = 1 + len(reference) + sum(len(c.arguments) for c in reference)

    def weight(p: Call, r: Call) -> int:
        common = [k for k in r.arguments if k in p.arguments]
        same = sum(json_equal(p.arguments[k], r.arguments[k]) for k in common) if values_matter else len(common)
        return (same * base + len(common)) * base + (p.name == r.name)

    turned = len(predicted) > len(reference)
    rows, columns = (reference, predicted) if turned else (predicted, reference)
    chosen = best_assignment([[weight(c, r) if turned else weight(r, c) for c in columns] for r in rows])
    pairs: list[tuple[Call | None, Call | None]] = [
        (columns[j], rows[i]) if turned else (rows[i], columns[j]) for i, j in chosen
    ]
    taken = {j for _, j in chosen}
    alone = [c for j, c in enumerate(columns) if j not in taken]
    return pairs + [(c, None) if turned else (None, c) for c in alone]


def _read_prediction(example: Example) -> list[Call] | None:
    """Reads the calls of a prediction; returns `None` if it is unparseable."""
    answer = json_or_text(example.get("prediction"))
    trajectory = example.invocation.predicted_trajectory
    if trajectory is not None and not (isinstance(answer, dict) and ("tool_calls" in answer or "tool_call" in answer)):
        return [Call(c.tool_name, {} if c.tool_input is None else c.tool_input) for c in trajectory]
    return _read_calls(answer)


def _read_reference(example: Example) -> list[Call] | Score:
    calls = _read_calls(json_or_text(example.get("reference")))
    if calls is None:
        return _NO_MESSAGE
    for number, call in enumerate(calls, 1):
        if not (call.valid or (call.arguments is None and call._replace(arguments={}).valid)):
            return Score.failed("unparseable_reference", f"call {number} of the reference is not as in {_FORM}")
    return [call if call.arguments is not None else Call(call.name, {}) for call in calls]


def _read_calls(message: Any) -> list[Call] | None:
    """Reads the calls of a message, maybe none; returns `None` if the value is not a message."""
    if not isinstance(message, dict):
        return None
    calls = json_or_text(message.get("tool_calls", message.get("tool_call")))
    if calls is None:
        return []
    if isinstance(calls, dict):
        calls = [calls]
    if not isinstance(calls, list | tuple):
        return None
    return [Call(c.get("name"), c.get("arguments")) if isinstance(c, dict) else Call(None, None) for c in calls]
