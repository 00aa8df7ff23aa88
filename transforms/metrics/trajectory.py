"""Trajectory metrics, which compare the tool calls of the agent with those of a reference.

A trajectory is a tuple of tool calls. Two calls are the same if their names are equal (case-sensitive) and their inputs
are equal as JSON: key order ignored, list order kept, 1 == 1.0, true != 1, "1" != 1, null != missing; a call without an
input has the input {}. All metrics except single tool use are arithmetic on one relation: which predicted call equals
which reference call. It is computed once per example, for all metrics.

Empty trajectories: 1 if both are empty; 0 if there are no predicted calls; without reference calls exact match is 0,
in-order and any-order match are 1, precision is 0 and recall is 1.

The definitions are those of Vertex AI's agent evaluation. Its documentation does not define empty trajectories and
repeated calls; the rules for them are evalbeam's. The profiles `adk` and `agentevals` follow the code of these
libraries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
import orjson

from ...schemas.errors import RowError
from ...schemas.instance import Example, ToolCall, Trajectory
from ...schemas.result import Score, ScoreColumn
from ...schemas.trajectory import parse_trajectory
from ._pooled import pooled_f1
from .base import Metric, Pooled, ScoringBatch, failure_of, register
from .kernels.calls import ArgsRule, Profile, Relation, Sameness
from .kernels.matching import matched, union

Value = TypeVar("Value")


class Related(NamedTuple):
    """The relations of a batch. Its many rows have few different ones, each of which a metric scores once.

    Attributes:
        distinct: The different relations, and `None` at the end.
        places: Place of each example's relation among them; -1 if it has none.
        faults: Error scores of the examples without one, by index.
        equivalence: Whether sameness is an equivalence between calls.
    """

    distinct: list[Relation | None]
    places: list[int]
    faults: dict[int, Score]
    equivalence: bool

    def each(self, compute: Callable[[Relation, bool], Value]) -> list[Value | None]:
        """Returns what is computed from each example's relation and `equivalence`; `None` without a relation."""
        values = [None if one is None else compute(one, self.equivalence) for one in self.distinct]
        return [values[place] for place in self.places]


@dataclass(frozen=True)
class TrajectoryComparison(Metric):
    """Base of metrics that compare the predicted with the reference trajectory.

    Attributes:
        args: How inputs are compared: "exact"; "ignore" (names only); "subset" (every argument of the predicted call is
            in the reference call); "superset" (every argument of the reference call is in the predicted call); or a
            mapping from tools to one of these words or to a list of keys (dotted paths) to compare; other tools are
            compared exactly.
        multiplicity: "multiset": a call made twice is two calls; "set": equal calls of a trajectory count once. Exact
            and in-order match compare positions and always keep all calls.
        matching: For precision, recall and F1. "membership": every call that appears in the other trajectory counts;
            "one_to_one": each call matches at most one call of the other trajectory (a largest such matching).
        profile: "vertex": JSON equality, see the documentation of trajectories. "adk": inputs are compared by Python's
            `==` (true == 1), and no input differs from {}. "agentevals": inputs are compared by Python's `==`, and in a
            list of keys a missing key equals null.
        ignore_args: ADK's name for args "ignore".
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
            raise ValueError("ignore_args and args are both given, allowed: one of them")

    def score(self, example: Example) -> Score:
        return self.score_batch(ScoringBatch([example])).at(0)

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        related = self._find_relations(batch)
        column = ScoreColumn(related.each(self._value))
        for i, score in related.faults.items():
            column.put(i, score)
        return column

    @abstractmethod
    def _value(self, relation: Relation, equivalence: bool) -> float:
        """Computes the score from a relation."""

    def _find_relations(self, batch: ScoringBatch, turned: bool = False) -> Related:
        """Returns the relations of a batch, shared by all metrics with the same options.

        Args:
            batch: The examples.
            turned: True to swap reference and predicted trajectory.
        """
        args: ArgsRule = "ignore" if self.ignore_args else self.args
        distinct = self._distinct
        key = ("relations", orjson.dumps(args, option=orjson.OPT_SORT_KEYS), self.profile, distinct, turned)
        return batch.share(key, lambda: _relate(batch, Sameness(args, self.profile, distinct), turned))

    @property
    def _distinct(self) -> bool:
        """True if equal calls of a trajectory count once."""
        return self.multiplicity == "set" and not self.by_position

    def _any_order(self, relation: Relation, equivalence: bool) -> float:
        masks, _, reference = relation
        if self.multiplicity == "set":
            return float(union(masks).bit_count() == reference)
        return match_any_order(relation, equivalence)


@register("metric", "trajectory_exact_match")
@dataclass(frozen=True)
class TrajectoryExactMatch(TrajectoryComparison):
    """1 if the predicted calls equal the reference calls, in number and order; else 0."""

    binary: ClassVar[bool] = True
    by_position: ClassVar[bool] = True

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return match_exactly(relation)


@register("metric", "trajectory_in_order_match")
@dataclass(frozen=True)
class TrajectoryInOrderMatch(TrajectoryComparison):
    """1 if the predicted calls include the reference calls in order; else 0."""

    binary: ClassVar[bool] = True
    by_position: ClassVar[bool] = True

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return match_in_order(relation)


@register("metric", "trajectory_any_order_match")
@dataclass(frozen=True)
class TrajectoryAnyOrderMatch(TrajectoryComparison):
    """1 if the predicted calls include the reference calls in any order, each as often as in the reference; else 0."""

    binary: ClassVar[bool] = True

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return self._any_order(relation, equivalence)


@register("metric", "trajectory_precision")
@dataclass(frozen=True)
class TrajectoryPrecision(TrajectoryComparison):
    """Share of predicted calls that appear in the reference, in [0, 1]."""

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return compute_precision(relation, self.matching == "one_to_one", equivalence)


@register("metric", "trajectory_recall")
@dataclass(frozen=True)
class TrajectoryRecall(TrajectoryComparison):
    """Share of reference calls that appear in the prediction, in [0, 1]."""

    def _value(self, relation: Relation, equivalence: bool) -> float:
        return compute_recall(relation, self.matching == "one_to_one", equivalence)


@register("metric", "trajectory_f1")
@dataclass(frozen=True)
class TrajectoryF1(TrajectoryComparison, Pooled):
    """Harmonic mean of trajectory_precision and trajectory_recall, in [0, 1]; 0 if both are 0.

    Attributes:
        corpus: Add a row `<name>/corpus` to the summary: F1 of the calls of all rows together.
    """

    corpus: bool = False

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        column = TrajectoryComparison.score_batch(self, batch)
        if self.corpus:
            counts = self._find_relations(batch).each(self._count)
            column.sums = {i: one for i, one in enumerate(counts) if one is not None}
        return column

    def _count(self, relation: Relation, equivalence: bool) -> tuple[int, int, int, int]:
        masks, predicted, reference = relation
        if self.matching == "one_to_one":
            both = matched(masks, equivalence)
            return both, predicted, both, reference
        return predicted - masks.count(0), predicted, union(masks).bit_count(), reference

    def pool(self, sums: np.ndarray) -> np.ndarray:
        """Returns F1 of all calls together."""
        return pooled_f1(sums)

    def _value(self, relation: Relation, equivalence: bool) -> float:
        one_to_one = self.matching == "one_to_one"
        p, r = compute_precision(relation, one_to_one, equivalence), compute_recall(relation, one_to_one, equivalence)
        return 2 * p * r / (p + r) if p + r else 0.0


@register("metric", "trajectory_match")
@dataclass(frozen=True)
class TrajectoryMatch(TrajectoryComparison):
    """1 if the trajectories match by ADK's or agentevals' `match_type`; else 0.

    EXACT and strict are trajectory_exact_match, IN_ORDER is trajectory_in_order_match, ANY_ORDER and superset are
    trajectory_any_order_match. With subset, the reference calls include the predicted calls, each as often as
    predicted; unordered is both superset and subset. As in agentevals, subset swaps the trajectories, so args "subset"
    and "superset" swap their meanings there. Unlike agentevals, which takes the first call that fits, a match is found
    whenever one exists.

    A trajectory is a list of calls without the message that each call belongs to, so strict treats every call as its
    own message. agentevals' strict compares messages in order, but calls within one message in any order; use unordered
    for agents that call tools in parallel.

    Attributes:
        match_type: ADK's match types are in upper case, those of agentevals in lower case.
    """

    match_type: Literal["EXACT", "IN_ORDER", "ANY_ORDER", "strict", "unordered", "subset", "superset"] = "EXACT"
    binary: ClassVar[bool] = True

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        column = TrajectoryComparison.score_batch(self, batch)
        if self.match_type in ("subset", "unordered"):
            turned = self._find_relations(batch, turned=True).each(self._any_order)
            for i, other in enumerate(turned):
                value = column.values[i]
                if value is not None and other is not None:
                    column.values[i] = value * other
        return column

    def _value(self, relation: Relation, equivalence: bool) -> float:
        if self.match_type in ("EXACT", "strict"):
            return match_exactly(relation)
        if self.match_type == "IN_ORDER":
            return match_in_order(relation)
        return 1.0 if self.match_type == "subset" else self._any_order(relation, equivalence)

    @property
    def _distinct(self) -> bool:
        return self.multiplicity == "set" and self.match_type not in ("EXACT", "strict", "IN_ORDER")


@register("metric", "trajectory_single_tool_use")
@dataclass(frozen=True)
class TrajectorySingleToolUse(Metric):
    """1 if the agent called the tool `tool_name`, with any input and at any position; else 0. Needs no reference.

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
            return _score_without_prediction(example)
        return Score(float(any(call.tool_name == self.tool_name for call in predicted)))

    def score_batch(self, batch: ScoringBatch) -> ScoreColumn:
        name, column = self.tool_name, ScoreColumn([])
        for i, example in enumerate(batch.examples):
            predicted = example.invocation.predicted_trajectory
            if predicted is None:
                column.values.append(None)
                column.put(i, _score_without_prediction(example))
            else:
                column.values.append(1.0 if name in [call.tool_name for call in predicted] else 0.0)
        return column


def match_exactly(relation: Relation) -> float:
    """Returns 1 if the calls of both trajectories are the same at every position, else 0."""
    masks, predicted, reference = relation
    if predicted != reference:
        return 0.0
    bit = 1
    for mask in masks:
        if not mask & bit:
            return 0.0
        bit += bit
    return 1.0


def match_in_order(relation: Relation) -> float:
    """Returns 1 if the reference calls are a subsequence of the predicted calls, else 0."""
    masks, _, reference = relation
    bit, end = 1, 1 << reference
    for mask in masks:
        if mask & bit:
            bit += bit
    return float(bit == end)


def match_any_order(relation: Relation, equivalence: bool) -> float:
    """Returns 1 if the reference calls can be matched one-to-one with predicted calls, else 0."""
    masks, predicted, reference = relation
    if predicted < reference:
        return 0.0
    found = union(masks)
    if found.bit_count() < reference:
        return 0.0
    if sum(masks) == found:  # no reference call equals two predicted calls, so each call with any has its own
        return float(predicted - masks.count(0) == reference)
    return float(matched(masks, equivalence) == reference)


def compute_precision(relation: Relation, one_to_one: bool, equivalence: bool) -> float:
    """Computes predicted calls that appear in the reference / predicted calls."""
    masks, predicted, reference = relation
    if not predicted:
        return float(not reference)
    return (matched(masks, equivalence) if one_to_one else predicted - masks.count(0)) / predicted


def compute_recall(relation: Relation, one_to_one: bool, equivalence: bool) -> float:
    """Computes reference calls that appear in the prediction / reference calls."""
    masks, _, reference = relation
    if not reference:
        return 1.0
    return (matched(masks, equivalence) if one_to_one else union(masks).bit_count()) / reference


def _relate(batch: ScoringBatch, sameness: Sameness, turned: bool) -> Related:
    pairs, faults = batch.share("trajectories", lambda: _read_trajectories(batch))
    known: dict[Relation, int] = {}
    places: list[int] = []
    faults = dict(faults)
    for i, pair in enumerate(pairs):
        place = -1
        if pair is not None:
            p, r = pair
            try:
                relation = sameness.relate(r, p) if turned else sameness.relate(p, r)
                place = known.setdefault(relation, len(known))
            except Exception as error:  # inputs nested deeper than Python can compare, or not JSON
                faults[i] = failure_of(error)
        places.append(place)
    return Related([*known, None], places, faults, sameness.is_equivalence)


def _read_trajectories(batch: ScoringBatch) -> tuple[list[tuple[Trajectory, Trajectory] | None], dict[int, Score]]:
    """Returns (predicted, reference) of every example, and error scores by index if one of them is missing."""
    pairs: list[tuple[Trajectory, Trajectory] | None] = []
    faults: dict[int, Score] = {}
    for i, example in enumerate(batch.examples):
        predicted = example.invocation.predicted_trajectory
        if predicted is None:
            pairs.append(None)
            faults[i] = _score_without_prediction(example)
            continue
        try:
            reference = parse_trajectory(example.instance.get("reference_trajectory"))
        except RowError as error:
            reference = None
            faults[i] = Score.failed("unparseable_reference_trajectory", error.message)
        else:
            if reference is None:
                faults[i] = Score.skipped("missing_reference_trajectory", "the row has no reference_trajectory")
            elif example.instance.fields.get("reference_names_only"):
                predicted, reference = _names_only(predicted), _names_only(reference)
        pairs.append(None if reference is None else (predicted, reference))
    return pairs, faults


def _names_only(trajectory: Trajectory) -> Trajectory:
    return tuple(ToolCall(call.tool_name, {}) for call in trajectory)


def _score_without_prediction(example: Example) -> Score:
    reason = example.invocation.trajectory_error
    if reason is not None:
        return Score.failed("unparseable_predicted_trajectory", reason)
    return Score.skipped("missing_predicted_trajectory", "the row has no predicted_trajectory")
