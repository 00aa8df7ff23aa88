"""Tool-call metrics: is the predicted tool call well formed, and is it the reference's?

Prediction and reference are `{content, tool_calls: [{name, arguments: {}}]}`, as JSON text or object; `tool_calls` may
itself be JSON text. A prediction that is not such JSON stands for its trajectory, where the agent reports one, and is
otherwise unparseable: all four metrics are 0. An unparseable reference is an error of the three that need it.

The definitions are those of Vertex AI's evaluation service. By default the first call of each alone is looked at, as
there; `calls: all` looks at all of them. Values are compared as JSON, strictly by type and character.
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
    """A tool call as it was found: `name` and `arguments` may be anything, `None` where they are missing."""

    name: Any
    arguments: Any

    @property
    def valid(self) -> bool:
        """Whether it has a name (non-empty text) and an object of arguments."""
        return isinstance(self.name, str) and bool(self.name) and isinstance(self.arguments, dict)


@dataclass(frozen=True)
class ToolCallMetric(Metric):
    """Base of the metrics of this family.

    Attributes:
        calls: "first": only the first call of prediction and reference; "all": all calls, in any order, paired one to
            one so that the score is highest.
        decimals: Digits the score is rounded to (2 is what the Vertex service shows); default: not rounded.
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
            except Exception as error:  # arguments nested deeper than Python compares
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
        """Score and details."""


@register("metric", "tool_call_valid")
@dataclass(frozen=True)
class ToolCallValid(ToolCallMetric):
    """1 iff the predicted call has a non-empty name and an object of arguments (`calls: all`: every call has); else 0.

    The reference is not looked at; a prediction without calls is 0.
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
    """1 iff the predicted call has the reference call's name (`calls: all`: same names, as often); else 0.

    Where neither has a call 1.
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
        denominator: "reference": the reference's parameters; "union": also the prediction's that the reference has
            not, so that invented parameters cost.
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
    """Reference parameters whose name the predicted call has / reference parameters, in [0, 1]; 1 where it has none.

    0 where the reference has a call and the prediction has none. Tool names are not looked at. Details name missing
    and extra parameters.
    """


@register("metric", "tool_parameter_kv_match")
@dataclass(frozen=True)
class ToolParameterKvMatch(ToolParameterMatch):
    """Reference parameters whose name and value the predicted call has / reference parameters; else as key match.

    Values are compared as JSON (1 == 1.0, "2" != 2). Details also give the wrong values.

    Attributes:
        use_strict_string_match: Accepted because the service accepts it; changes nothing, there as here.
    """

    use_strict_string_match: bool = True
    values_matter: ClassVar[bool] = True


@dataclass
class _Count:
    """Parameters counted over the pairs of a row; in details they are named `tool.parameter` where `qualified`."""

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
    """Calls paired one to one: most matches, then most common parameters, then most common names; the rest alone."""
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
    """The calls of a prediction; `None` where it is unparseable."""
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
    """The calls of a message; none where it has no tool_calls; `None` where it is no such message."""
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
