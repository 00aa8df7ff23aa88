"""Trajectory metrics: did the agent call the tools that the reference calls?

A trajectory is a tuple of tool calls. Two calls are the same iff their names are equal (case-sensitive) and their
inputs are equal as JSON: key order ignored, list order kept, 1 == 1.0, true != 1, "1" != 1, null != missing; a call
without an input has the input {}. All metrics but single tool use are arithmetic on one relation, which predicted call
is which reference call; it is computed once for an example, however many metrics ask.

Empty trajectories: both empty 1; no predicted calls 0; no reference calls: exact match 0, in-order and any-order match
1, precision 0, recall 1.

The definitions are those of Vertex AI's agent evaluation. Its documents say nothing of empty trajectories and repeated
calls: those rules are ours. The profiles `adk` and `agentevals` follow the code of these libraries.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import orjson

from ...schemas.errors import RowError
from ...schemas.instance import Example, Trajectory
from ...schemas.result import Score, ScoreColumn
from ...schemas.trajectory import parse_trajectory
from .base import Metric, ScoringBatch, failure_of, register
from .kernels.calls import ArgsRule, Profile, Relation, Sameness
from .kernels.matching import matched, union

Related = tuple[list[Relation | None], dict[int, Score], bool]
"""A relation for each example, why there is none by position, and whether it is an equivalence."""


@dataclass(frozen=True)
class TrajectoryComparison(Metric):
    """Base of the metrics that compare the predicted with the reference trajectory.

    Attributes:
        args: How much of two inputs must agree: "exact"; "ignore" (names only); "subset" (all that the predicted call
            passes is in the reference call); "superset" (all that the reference passes is in the predicted call); or,
            by tool, one of these words or a list of keys (dotted paths) that alone are compared; other tools exact.
        multiplicity: "multiset": a call made twice is two calls; "set": equal calls of a trajectory are one. Exact and
            in-order match go by position and keep all calls.
        matching: For precision, recall and F1. "membership": every call that appears in the other trajectory counts;
            "one_to_one": each call stands for one call of the other at most (largest such matching).
        profile: "vertex": as above. "adk": inputs are compared as Python does (true == 1), no input is not {}.
            "agentevals": inputs are compared as Python does, and of a list of keys a missing one is null.
        ignore_args: ADK's word for args "ignore".
    """

    args: ArgsRule = "exact"
    multiplicity: Literal["multiset", "set"] = "multiset"
    matching: Literal["membership", "one_to_one"] = "membership"
    profile: Profile = "vertex"
    ignore_args: bool = False

    inputs: ClassVar[tuple[str, ...]] = ("predicted_trajectory", "reference_trajectory")
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    by_position: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.ignore_args and self.args not in ("exact", "ignore"):
            raise ValueError("ignore_args and args exclude each other")

    def score(self, example: Example) -> Score:
        return self.score_batch(ScoringBatch([example])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        relations, faults, equivalence = self._related(batch)
        column = ScoreColumn([None if r is None else self._value(r, equivalence) for r in relations])
        for i, score in faults.items():
            column.put(i, score)
        return column

    @abstractmethod
    def _value(self, relation: Relation, equivalence: bool) -> float:
        """The score that a relation gives."""

    def _related(self, batch: ScoringBatch, turned: bool = False) -> Related:
        """The relations of a batch, shared by all metrics with the same options.

        Args:
            batch: The examples.
            turned: Reference and predicted trajectory change places.
        """
        args: ArgsRule = "ignore" if self.ignore_args else self.args
        distinct = self._distinct
        key = ("relations", orjson.dumps(args, option=orjson.OPT_SORT_KEYS), self.profile, distinct, turned)
        return batch.share(key, lambda: _relate(batch, Sameness(args, self.profile, distinct), turned))

    @property
    def _distinct(self) -> bool:
        """Whether equal calls of a trajectory are one."""
        return self.multiplicity == "set" and not self.by_position

    def _any_order(self, relation: Relation, equivalence: bool) -> float:
        masks, _, reference = relation
        if self.multiplicity == "set":
            return float(union(masks).bit_count() == reference)
        return any_order(relation, equivalence)


@register("metric", "trajectory_exact_match")
@dataclass(frozen=True)
class TrajectoryExactMatch(TrajectoryComparison):
    """1 iff the predicted calls are the reference calls, in number and order; else 0."""

    binary: ClassVar[bool] = True
    by_position: ClassVar[bool] = True

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return exact(relation)


@register("metric", "trajectory_in_order_match")
@dataclass(frozen=True)
class TrajectoryInOrderMatch(TrajectoryComparison):
    """1 iff the reference calls are among the predicted calls in the reference's order; else 0."""

    binary: ClassVar[bool] = True
    by_position: ClassVar[bool] = True

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return in_order(relation)


@register("metric", "trajectory_any_order_match")
@dataclass(frozen=True)
class TrajectoryAnyOrderMatch(TrajectoryComparison):
    """1 iff every reference call, as often as it stands there, is among the predicted calls; else 0."""

    binary: ClassVar[bool] = True

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return self._any_order(relation, equivalence)


@register("metric", "trajectory_precision")
@dataclass(frozen=True)
class TrajectoryPrecision(TrajectoryComparison):
    """Share of the predicted calls that appear in the reference, in [0, 1]."""

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return precision(relation, self.matching == "one_to_one", equivalence)


@register("metric", "trajectory_recall")
@dataclass(frozen=True)
class TrajectoryRecall(TrajectoryComparison):
    """Share of the reference calls that appear in the prediction, in [0, 1]."""

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return recall(relation, self.matching == "one_to_one", equivalence)


@register("metric", "trajectory_f1")
@dataclass(frozen=True)
class TrajectoryF1(TrajectoryComparison):
    """Harmonic mean of trajectory_precision and trajectory_recall, in [0, 1]; 0 where both are 0."""

    def _value(self, relation: Relation, equivalence: bool) -> float:
        one_to_one = self.matching == "one_to_one"
        p, r = precision(relation, one_to_one, equivalence), recall(relation, one_to_one, equivalence)
        return 2 * p * r / (p + r) if p + r else 0.0


@register("metric", "trajectory_match")
@dataclass(frozen=True)
class TrajectoryMatch(TrajectoryComparison):
    """1 iff the trajectories match in the way that ADK's or agentevals' `match_type` names; else 0.

    EXACT and strict are trajectory_exact_match, IN_ORDER is trajectory_in_order_match, ANY_ORDER and superset are
    trajectory_any_order_match; subset: every predicted call, as often as it stands there, is among the reference
    calls; unordered: both. As in agentevals the trajectories change places where predicted calls are looked for in
    the reference, so that args "subset" and "superset" swap their meanings there; unlike in agentevals, which takes
    the first call that fits, a match is found wherever there is one.

    A trajectory is a list of calls and does not say which of them an agent made at once, in one message: strict takes
    each for a message of its own. agentevals' strict asks for the same messages in the same order, and leaves the
    order of the calls within one open; for agents that call tools in parallel, unordered does.

    Attributes:
        match_type: Upper case in ADK's words, lower case in agentevals'.
    """

    match_type: Literal["EXACT", "IN_ORDER", "ANY_ORDER", "strict", "unordered", "subset", "superset"] = "EXACT"
    binary: ClassVar[bool] = True

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        column = TrajectoryComparison.score_batch(self, batch)
        if self.match_type in ("subset", "unordered"):
            turned, _, equivalence = self._related(batch, turned=True)
            for i, relation in enumerate(turned):
                value = column.values[i]
                if value is not None and relation is not None:
                    column.values[i] = value * self._any_order(relation, equivalence)
        return column

    def _value(self, relation: Relation, equivalence: bool) -> float:
        if self.match_type in ("EXACT", "strict"):
            return exact(relation)
        if self.match_type == "IN_ORDER":
            return in_order(relation)
        return 1.0 if self.match_type == "subset" else self._any_order(relation, equivalence)

    @property
    def _distinct(self) -> bool:
        return self.multiplicity == "set" and self.match_type not in ("EXACT", "strict", "IN_ORDER")


@register("metric", "trajectory_single_tool_use")
@dataclass(frozen=True)
class TrajectorySingleToolUse(Metric):
    """1 iff some predicted call is of the tool `tool_name`, whatever its input and place; else 0; no reference needed.

    Attributes:
        tool_name: Name of the tool, case-sensitive.
    """

    tool_name: str
    inputs: ClassVar[tuple[str, ...]] = ("predicted_trajectory",)
    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True

    @property
    def variant(self) -> str:
        return self.tool_name

    def score(self, example: Example) -> Score:
        predicted = example.invocation.predicted_trajectory
        if predicted is None:
            return _no_prediction(example)
        return Score(float(any(call.tool_name == self.tool_name for call in predicted)))

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        name, column = self.tool_name, ScoreColumn([])
        for i, example in enumerate(batch.examples):
            predicted = example.invocation.predicted_trajectory
            if predicted is None:
                column.values.append(None)
                column.put(i, _no_prediction(example))
            else:
                column.values.append(1.0 if name in [call.tool_name for call in predicted] else 0.0)
        return column


def exact(relation: Relation) -> float:
    """1 iff the calls of both trajectories are the same one by one."""
    masks, predicted, reference = relation
    if predicted != reference:
        return 0.0
    bit = 1
    for mask in masks:
        if not mask & bit:
            return 0.0
        bit += bit
    return 1.0


def in_order(relation: Relation) -> float:
    """1 iff the reference calls are a subsequence of the predicted calls."""
    masks, _, reference = relation
    bit, end = 1, 1 << reference
    for mask in masks:
        if mask & bit:
            bit += bit
    return float(bit == end)


def any_order(relation: Relation, equivalence: bool) -> float:
    """1 iff every reference call has a predicted call of its own."""
    masks, predicted, reference = relation
    if predicted < reference or union(masks).bit_count() < reference:
        return 0.0
    return float(matched(masks, equivalence) == reference)


def precision(relation: Relation, one_to_one: bool, equivalence: bool) -> float:
    """Predicted calls that appear in the reference / predicted calls."""
    masks, predicted, reference = relation
    if not predicted:
        return float(not reference)
    return (matched(masks, equivalence) if one_to_one else predicted - masks.count(0)) / predicted


def recall(relation: Relation, one_to_one: bool, equivalence: bool) -> float:
    """Reference calls that appear in the prediction / reference calls."""
    masks, _, reference = relation
    if not reference:
        return 1.0
    return (matched(masks, equivalence) if one_to_one else union(masks).bit_count()) / reference


def _relate(batch: ScoringBatch, sameness: Sameness, turned: bool) -> Related:
    pairs, faults = batch.share("trajectories", lambda: _trajectories(batch))
    relations: list[Relation | None] = []
    faults = dict(faults)
    for i, pair in enumerate(pairs):
        relation = None
        if pair is not None:
            p, r = pair
            try:
                relation = sameness.relate(r, p) if turned else sameness.relate(p, r)
            except Exception as error:  # nested deeper than Python compares, or no JSON
                faults[i] = failure_of(error)
        relations.append(relation)
    return relations, faults, sameness.is_equivalence


def _trajectories(batch: ScoringBatch) -> tuple[list[tuple[Trajectory, Trajectory] | None], dict[int, Score]]:
    """(predicted, reference) of every example, and by position why one of them is not there."""
    pairs: list[tuple[Trajectory, Trajectory] | None] = []
    faults: dict[int, Score] = {}
    for i, example in enumerate(batch.examples):
        predicted = example.invocation.predicted_trajectory
        if predicted is None:
            pairs.append(None)
            faults[i] = _no_prediction(example)
            continue
        try:
            reference = parse_trajectory(example.instance.get("reference_trajectory"))
        except RowError as error:
            reference = None
            faults[i] = Score.failed("unparseable_reference_trajectory", error.message)
        else:
            if reference is None:
                faults[i] = Score.skipped("missing_reference_trajectory", "the row has no reference_trajectory")
        pairs.append(None if reference is None else (predicted, reference))
    return pairs, faults


def _no_prediction(example: Example) -> Score:
    reason = example.invocation.trajectory_error
    if reason is not None:
        return Score.failed("unparseable_predicted_trajectory", reason)
    return Score.skipped("missing_predicted_trajectory", "the row has no predicted_trajectory")
