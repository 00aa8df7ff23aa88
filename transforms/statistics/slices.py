"""Turns scored rows into partial aggregates of the summary rows to which they belong."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ...schemas.identity import input_id
from ...schemas.instance import Example
from ...schemas.names import WIN_RATES
from ...schemas.result import Better, ScoreColumn, ScoredBatch, SliceKey, Status
from ...schemas.values import slice_text
from .accumulators import Accumulator
from .bootstrap import Draws, Pool, fixed_point
from .clusters import Clusters
from .counting import MOST_ROWS, ScoreTable
from .criteria import Threshold
from .labelled import Label, observe
from .pass_rates import PassRate
from .permutation import key_of

SliceValues: TypeAlias = tuple[tuple[str, str | None], ...]
Labels: TypeAlias = Mapping[tuple[str, int], Mapping[str, Label]]
"""What people say, by instance_id and trial, and by metric."""

_ENDS: Mapping[str, tuple[float, float]] = {"CANDIDATE": (0.0, 1.0), "BASELINE": (1.0, 0.0)}
"""Worst and best value of the rates of verdicts; nobody says whether ties are good."""


@dataclass(frozen=True, slots=True)
class MetricFacts:
    """The facts about a metric that aggregation needs.

    Attributes:
        name: Output name.
        binary: Whether every score is 0 or 1.
        worst, best: Ends of its range as `Metric.ends` gives them; `None` without a range.
        range: Lowest and highest possible score; `None` without a range.
        pairwise: Whether its verdict is a label BASELINE, CANDIDATE or TIE.
        threshold: Threshold that a score must meet to pass.
        better: Which of two scores is the better one.
        labelled: Whether people labelled some of the rows.
        ratio: Of a ratio of sums, the two metrics.
        pooled: Of a score of all rows together, the metric and the function that computes it from sums over rows.
        passes: Of a share of instances, the trials of which it is the share; its rows are instances.
    """

    name: str
    binary: bool = False
    worst: float | None = None
    best: float | None = None
    pairwise: bool = False
    threshold: Threshold | None = None
    better: Better = "higher"
    range: tuple[float, float] | None = None
    labelled: bool = False
    ratio: tuple[str, str] | None = None
    pooled: tuple[str, Pool] | None = None
    passes: PassRate | None = None

    @property
    def of_sums(self) -> bool:
        """Whether it is a statistic of sums over rows, and rows have no score of it."""
        return self.ratio is not None or self.pooled is not None

    def rows(self) -> tuple[MetricFacts, ...]:
        """Returns its metrics in the summary table: itself, or the three rates of a pairwise metric."""
        if not self.pairwise:
            return (self,)
        ends = ((rate, *_ENDS.get(verdict, (None, None))) for verdict, rate in WIN_RATES.items())
        return tuple(
            MetricFacts(f"{self.name}/{rate}", binary=True, worst=worst, best=best, range=(0.0, 1.0))
            for rate, worst, best in ends
        )


def distinct_slices(slices: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Returns the column lists of all slices without duplicates; the first is empty, for the whole dataset."""
    return list(dict.fromkeys([(), *map(tuple, slices)]))


def slice_order(value: str | None) -> tuple[int, float, str]:
    """Returns the sort key of a slice value: missing values first, then numbers, then text."""
    if value is None:
        return 0, 0.0, ""
    return (1, float(value), value) if _NUMBER.fullmatch(value) else (2, 0.0, value)


_NUMBER = re.compile(r"-?(0|[1-9]\d{0,300})(\.\d+)?(e[+-]?\d{1,2})?", re.ASCII)


class Partials:
    """What batches add to each summary row. The scores of many batches are counted together, which costs less.

    Args:
        slices: Column lists, each once; the empty one is the whole dataset. See `distinct_slices`.
        facts: The metrics to aggregate; each must be in the batches' scores; those of sums come after their metrics.
        on_failure: "worst" counts skipped rows whose agent failed as worst (a pairwise metric: won by the baseline).
        win_rate_all_rows: Win rates are shares of all rows, those without a verdict included.
        labels: What people say of some rows.
        resample: Whether means get replicates of the bootstrap; statistics of sums have them in any case.
        cluster: Columns whose equal values put rows into one cluster; default: equal inputs are one.
    """

    def __init__(
        self,
        slices: Sequence[tuple[str, ...]],
        facts: Collection[MetricFacts],
        on_failure: Literal["exclude", "worst"] = "exclude",
        win_rate_all_rows: bool = False,
        labels: Labels | None = None,
        resample: bool = False,
        cluster: Sequence[str] = (),
    ) -> None:
        self.slices, self.facts, self.labels, self.cluster = slices, facts, labels, cluster
        self.worst, self.all_rows, self.resample = on_failure == "worst", win_rate_all_rows, resample
        self._passing = {
            row.name: row.threshold and row.threshold.met for one in facts if not one.of_sums for row in one.rows()
        }
        self._table = ScoreTable(self.slices)
        self._beside: dict[SliceKey, Accumulator] = {}

    def count(self, batch: ScoredBatch) -> list[tuple[SliceKey, Accumulator]]:
        """Returns what this batch adds, and what was added before and not taken."""
        return [*self.add(batch), *self.take()]

    def add(self, batch: ScoredBatch) -> Iterator[tuple[SliceKey, Accumulator]]:
        """Adds a batch; yields what batches add so far if they are many, or if rows depend on each other."""
        size = len(batch.examples)
        if not size:
            return
        if self._table.rows + size > MOST_ROWS:
            yield from self.take()
        self._table.add_rows(batch.examples)
        units = _units(batch.examples, self.cluster)
        said = _said(batch.examples, self.labels) if self.labels else {}
        drawn = Draws(units.names) if self.resample or any(f.of_sums for f in self.facts) else None
        alone = units.single and not said and drawn is None
        groups = [] if alone else _groups(batch.examples, self.slices, units)
        values: dict[str, Sequence[float | None]] = {}
        for one in self.facts:
            if drawn and one.of_sums:
                yield from _of_sums(one, _terms(batch, one, values), groups, drawn)
                continue
            for row, sample in _samples(batch.scores[one.name], one, self.worst, self.all_rows):
                values[row.name] = sample.values
                self._table.add_scores(row.name, sample.values, sample.unscored)
                draws = drawn if self.resample else None
                self._beside |= _beside(row.name, sample.values, groups, said.get(one.name), draws)
        if not alone:
            yield from self.take()

    def take(self) -> Iterator[tuple[SliceKey, Accumulator]]:
        """Yields what the batches add that were added since the last time."""
        table, beside = self._table, self._beside
        self._table, self._beside = ScoreTable(self.slices), {}
        for name, metric, part in table.count(self._passing) if table.rows else ():
            key = SliceKey(name, metric)
            if key in beside:
                part.absorb(beside.pop(key))
            yield key, part


def _beside(
    name: str,
    values: Sequence[float | None],
    groups: Iterable[_Group],
    said: Sequence[Label | None] | None,
    drawn: Draws | None,
) -> dict[SliceKey, Accumulator]:
    """Returns what each slice has beside counts: clusters, what people say, and replicates of the bootstrap."""
    columns = drawn and fixed_point(values)
    found: dict[SliceKey, Accumulator] = {}
    for group in groups:
        picked = group.pick(values)
        found[SliceKey(group.slice, name)] = Accumulator(
            clusters=group.clusters_of(picked),
            labelled=observe(picked, group.pick(said), group.clusters.values()) if said else {},
            replicates=drawn.over(group.positions, columns) if drawn and columns is not None else None,
        )
    return found


def _samples(
    column: ScoreColumn, one: MetricFacts, worst: bool, all_rows: bool
) -> Iterator[tuple[MetricFacts, _Sample]]:
    """Yields the values of each of a metric's summary rows."""
    samples = _win_samples(column, all_rows) if one.pairwise else [_sample(column, one)]
    for row, sample in zip(one.rows(), samples, strict=True):
        yield row, sample.with_failures(column) if worst else sample


def _terms(
    batch: ScoredBatch, one: MetricFacts, values: Mapping[str, Sequence[float | None]]
) -> list[Sequence[float | None]]:
    """Returns what each row adds to each of the sums; `None` for rows that add nothing."""
    if one.ratio:
        return [values[name] for name in one.ratio]
    sums = batch.scores[one.pooled[0]].sums if one.pooled else {}
    width = len(next(iter(sums.values()), (None,)))
    rows = [sums.get(i, (None,) * width) for i in range(len(batch.examples))]
    return [list(term) for term in zip(*rows, strict=True)]


def _of_sums(
    one: MetricFacts, values: Sequence[Sequence[float | None]], groups: Iterable[_Group], drawn: Draws
) -> Iterator[tuple[SliceKey, Accumulator]]:
    """Yields the sums of a statistic, over the rows that have all values."""
    columns = fixed_point(*values)
    for group in groups:
        rows = list(zip(*map(group.pick, values), strict=True))
        scored = sum(None not in row for row in rows)
        replicates = drawn.over(group.positions, columns)
        part = Accumulator(len(rows), scored, skipped=len(rows) - scored, replicates=replicates)
        yield SliceKey(group.slice, one.name), part


class _Units(NamedTuple):
    """The clusters of a batch's rows.

    Attributes:
        names: Name of the cluster of each row.
        single: Whether each row is a cluster of its own.
        open: Whether other batches may have rows of the same clusters; if not, the rows of one follow each other.
    """

    names: Sequence[str]
    single: bool
    open: bool


def _units(examples: Sequence[Example], cluster: Sequence[str]) -> _Units:
    """Finds the clusters: rows with equal values in the columns or, without columns, with equal inputs.

    Rows that lack one of the columns are clusters by their inputs. Equal inputs are in one batch, unless they are more
    than it holds; then it holds nothing else.
    """
    ids = [e.instance.instance_id for e in examples]
    names = [input_id(one) for one in ids] if "-" in "".join(ids) else ids
    if cluster:
        rows = ([slice_text(e.instance.row.get(c)) for c in cluster] for e in examples)
        found = [name if None in row else repr(row) for name, row in zip(names, rows, strict=True)]
        return _Units(found, False, True)
    whole = bool(ids) and names[0] == names[-1] and "-" in ids[-1]
    return _Units(names, not whole and len(set(names)) == len(names), whole)


@dataclass(frozen=True, slots=True)
class _Group:
    """The rows of one slice.

    Attributes:
        slice: The slice.
        positions: Their positions in the batch; `None`: all.
        pick: A function that picks their values.
        clusters: Places of the rows of each cluster among them, by its name, as far as it has several rows.
        open: Whether other batches may have rows of these clusters.
    """

    slice: SliceValues
    positions: Sequence[int] | None
    pick: Callable[[Sequence[Any]], Sequence[Any]]
    clusters: Mapping[str, Sequence[int]]
    open: bool

    def clusters_of(self, values: Sequence[float | None]) -> Clusters | None:
        """Returns the clusters of the rows' values; `None` if each row is one of its own."""
        if not self.clusters:
            return None
        found = {name: [values[i] for i in places] for name, places in self.clusters.items()}
        if self.open:
            return Clusters.opened({key_of(name): cluster for name, cluster in found.items()})
        return Clusters.of(found.values())


@dataclass(frozen=True, slots=True)
class _Sample:
    """The values of one summary row in a batch.

    Attributes:
        values: Value of each position; `None` if it has none.
        unscored: Status of the positions without a score.
        failed: Value of a position whose agent failed, if failures count as worst.
    """

    values: Sequence[float | None]
    unscored: Mapping[int, Status] = field(default_factory=dict)
    failed: float | None = None

    def with_failures(self, column: ScoreColumn) -> _Sample:
        """Returns the sample with value `failed` in rows whose agent failed."""
        lost = [i for i, error in column.errors.items() if error.code == "agent_failed" and i in self.unscored]
        if not lost or self.failed is None:
            return self
        values = list(self.values)
        for i in lost:
            values[i] = self.failed
        return replace(self, values=values)


def _said(examples: Sequence[Example], labels: Labels) -> dict[str, list[Label | None]]:
    """Returns what people say of each example by metric, for the metrics of which they say something."""
    found: dict[str, list[Label | None]] = {}
    for i, example in enumerate(examples):
        for name, label in labels.get((example.instance.instance_id, example.trial), {}).items():
            found.setdefault(name, [None] * len(examples))[i] = label
    return found


def _groups(examples: Sequence[Example], slices: Iterable[tuple[str, ...]], units: _Units) -> list[_Group]:
    groups: list[_Group] = []
    texts: dict[str, list[str | None]] = {}
    for columns in slices:
        if not columns:
            groups.append(_Group((), None, lambda values: values, _places(units, range(len(examples))), units.open))
            continue
        for column in columns:
            if column not in texts:
                texts[column] = [slice_text(e.instance.row.get(column)) for e in examples]
        positions: dict[tuple[str | None, ...], list[int]] = {}
        for i, key in enumerate(zip(*(texts[column] for column in columns), strict=True)):
            if (places := positions.get(key)) is None:
                places = positions[key] = []
            places.append(i)
        for key, places in positions.items():
            name = tuple(zip(columns, key, strict=True))
            groups.append(_Group(name, places, _picker(places), _places(units, places), units.open))
    return groups


def _places(units: _Units, positions: Sequence[int]) -> dict[str, list[int]]:
    """Returns the places of the rows of each cluster among some rows; of closed clusters, those with several rows."""
    if units.single:
        return {}
    found: dict[str, list[int]] = {}
    for place, i in enumerate(positions):
        found.setdefault(units.names[i], []).append(place)
    return found if units.open else {name: places for name, places in found.items() if len(places) > 1}


def _picker(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if len(places) == 1:
        return lambda values: (values[places[0]],)
    return itemgetter(*places)


def _sample(column: ScoreColumn, facts: MetricFacts) -> _Sample:
    """Builds the sample of a numeric metric; a score that is neither a finite number nor a label is an error."""
    values, unscored = column.values, column.status
    missing = len(values) - int(np.isfinite(np.array(values, np.float64)).sum())
    if missing == values.count(None) == len(unscored) and all(values[i] is None for i in unscored):
        return _Sample(values, unscored, facts.worst)
    clean: list[float | None] = [None] * len(values)
    status = dict(unscored)
    for i, value in enumerate(values):
        if i in unscored or (value is None and i in column.labels):
            continue
        if value is None or not math.isfinite(value):
            status[i] = "error"
        else:
            clean[i] = value
    return _Sample(clean, status, facts.worst)


def _win_samples(column: ScoreColumn, all_rows: bool) -> list[_Sample]:
    """Builds the three samples of a pairwise metric: 1 if the verdict is the label, 0 if it is another."""
    size = len(column.values)
    labels = {i: label for i, label in column.labels.items() if label in WIN_RATES and i not in column.status}
    unscored: dict[int, Status] = {i: column.status.get(i, "error") for i in range(size) if i not in labels}
    samples = []
    for label in WIN_RATES:
        values: list[float | None] = [0.0 if all_rows else None] * size
        for i, verdict in labels.items():
            values[i] = float(verdict == label)
        samples.append(_Sample(values, unscored, float(label == "BASELINE")))
    return samples
