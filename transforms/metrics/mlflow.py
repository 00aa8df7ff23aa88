"""Scorers of MLflow 3 that compute instead of asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import orjson

from ...schemas.errors import RowError
from ...schemas.instance import Example, ToolCall
from ...schemas.result import Score
from ...schemas.trajectory import parse_trajectory
from .base import Metric, register


@register("metric", "mlflow/tool_call_match")
@dataclass(frozen=True)
class ToolCallMatch(Metric):
    """1 if the tools that were called, and their arguments, are exactly those expected, else 0.

    This is MLflow's `ToolCallCorrectness(should_exact_match=True)`: without `ordered`, two trajectories of the same
    length match if each has the calls of the other, however often. If an expected call has no arguments, only the names
    of tools are compared.

    Attributes:
        ordered: Calls must be in the expected order.
    """

    ordered: bool = False

    inputs: ClassVar[tuple[str, ...]] = ("predicted_trajectory", "reference_trajectory")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True
    outputs: ClassVar[tuple[str, ...]] = ("explanation",)

    def score(self, example: Example) -> Score:
        predicted = example.invocation.predicted_trajectory
        if predicted is None:
            return Score.failed("unparseable_predicted_trajectory", example.invocation.trajectory_error or "")
        try:
            expected = parse_trajectory(example.instance.get("reference_trajectory")) or ()
        except RowError as error:
            return Score.failed("unparseable_reference_trajectory", error.message)
        if len(predicted) != len(expected):
            return Score(0.0, explanation=f"Expected {len(expected)} tool calls, found {len(predicted)}.")
        whole = all(call.tool_input is not None for call in expected)
        found, wanted = [_sign(c, whole) for c in predicted], [_sign(c, whole) for c in expected]
        return _compare_in_order(found, wanted) if self.ordered else _compare_as_sets(found, wanted)


def _sign(call: ToolCall, whole: bool) -> str:
    if not whole:
        return call.tool_name
    given = orjson.dumps(call.tool_input or {}, option=orjson.OPT_SORT_KEYS).decode()
    return f"{call.tool_name}({given})"


def _compare_in_order(found: Sequence[str], wanted: Sequence[str]) -> Score:
    pairs = enumerate(zip(found, wanted, strict=True), 1)
    wrong = [f"call {i}: expected {w}, found {f}" for i, (f, w) in pairs if f != w]
    return Score(float(not wrong), explanation="; ".join(wrong) or "All calls are as expected, in order.")


def _compare_as_sets(found: Sequence[str], wanted: Sequence[str]) -> Score:
    missing, extra = sorted({*wanted} - {*found}), sorted({*found} - {*wanted})
    parts = [f"{what}: {', '.join(calls)}" for what, calls in (("missing", missing), ("unexpected", extra)) if calls]
    return Score(float(not parts), explanation="; ".join(parts) or "All calls are as expected.")
