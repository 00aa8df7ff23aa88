"""Reads the instances of two runs by column, and joins them by id, block by block: both tables are sorted by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from .compared import Compared, column_of
from .run.columns import Floats, as_floats, compute, read_columns
from .run.result import EvaluationResult

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]
Positions = np.ndarray[tuple[int], np.dtype[np.int64]]


class Instances(NamedTuple):
    """Instances of a run, in the order of their ids.

    Attributes:
        ids: Their ids, each once.
        scores: What is compared of each instance, by name: the mean score over its trials or a rate of those that pass,
            NaN where there is none; for a quantile, the scores of all trials as a tuple, `None` where there is none.
        columns: Other columns of its first trial, as far as the run has them.
        called: Whether it was called; false if its run called no more, since the mean that it follows was decided.
        positions: Position of its first trial in the table.
    """

    ids: pa.Array
    scores: dict[str, np.ndarray]
    columns: dict[str, pa.ChunkedArray]
    called: Mask
    positions: Positions

    def part(self, first: int, last: int) -> Instances:
        """Returns the instances from one place up to another."""
        return Instances(
            self.ids[first:last],
            {name: scores[first:last] for name, scores in self.scores.items()},
            {name: column[first:last] for name, column in self.columns.items()},
            self.called[first:last],
            self.positions[first:last],
        )


def find_scored(scores: np.ndarray) -> Mask:
    """Tells which of the `scores` of some instances are there."""
    return np.array([one is not None for one in scores], np.bool_) if scores.dtype == object else np.isfinite(scores)


class Block(NamedTuple):
    """Instances of two runs with ids of one range; `places` has the place of each of `old` in `new`, -1 for none."""

    old: Instances
    new: Instances
    places: Positions

    @property
    def paired(self) -> Mask:
        """Which of the first run's instances the second run has as well."""
        return self.places >= 0


class Wanted(NamedTuple):
    """What is read of a run.

    Attributes:
        compared: What is compared, by name.
        bests: Best score of a metric within its range; distances from it replace the scores.
        columns: Further columns, if the run has them.
        decision: Why the run called no more, in the words of its table; "" if it called all rows.
    """

    compared: Mapping[str, Compared]
    bests: Mapping[str, float | None]
    columns: Sequence[str]
    decision: str = ""


def join_instances(old: tuple[EvaluationResult, Wanted], new: tuple[EvaluationResult, Wanted]) -> Iterator[Block]:
    """Yields the instances of two runs in the order of their ids, those of one range of ids at a time."""
    sides = [_read_instances(*side) for side in (old, new)]
    left = [next(side, None) for side in sides]
    ended = [_make_empty(wanted) for _, wanted in (old, new)]
    while known := [one for one in left if one is not None]:
        end = min(one.ids[-1].as_py() for one in known)
        taken: list[Instances] = []
        for i, one in enumerate(left):
            if one is None:
                taken.append(ended[i])
                continue
            count = compute.sum(compute.less_equal(one.ids, end)).as_py()
            taken.append(one.part(0, count))
            left[i] = one.part(count, len(one.ids)) if count < len(one.ids) else next(sides[i], None)
        places = compute.index_in(taken[0].ids, value_set=taken[1].ids).fill_null(-1).to_numpy(zero_copy_only=False)
        yield Block(taken[0], taken[1], places.astype(np.int64))


def _read_instances(run: EvaluationResult, wanted: Wanted) -> Iterator[Instances]:
    """Yields the instances of a run's table, some at a time, each with all its trials."""
    scores = [column_of(one.metric) for one in wanted.compared.values()]
    more = ["error_message"] if wanted.decision else []
    first, held = 0, None
    for table in read_columns(run, ["instance_id", *scores, "status", *wanted.columns, *more]):
        whole = table if held is None else pa.concat_tables([held, table])
        ids = whole["instance_id"]
        count = len(ids) - compute.sum(compute.equal(ids, ids[-1])).as_py()
        if count:  # trials of the last instance may follow
            yield _group_trials(whole[:count], wanted, first)
        first, held = first + count, whole[count:]
    if held is not None:
        yield _group_trials(held, wanted, first)


def _make_empty(wanted: Wanted) -> Instances:
    none = np.empty(0)
    ids = pa.array([], pa.string())
    columns = {name: pa.chunked_array([ids]) for name in wanted.columns}
    scores = {name: none.astype(object) if one.quantile else none for name, one in wanted.compared.items()}
    return Instances(ids, scores, columns, none.astype(bool), none.astype(np.int64))


def _group_trials(table: pa.Table, wanted: Wanted, first: int) -> Instances:
    ids = table["instance_id"].combine_chunks()
    starts = np.flatnonzero(np.append(True, compute.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)))
    sizes = np.diff(np.append(starts, len(ids)))
    alone = len(starts) == len(ids)
    scores: dict[str, np.ndarray] = {}
    for name, one in wanted.compared.items():
        if one.quantile is not None or one.passes is not None:
            scores[name] = _measure_each(table, one, wanted.bests.get(one.metric), starts)
            continue
        measured = _measure(as_floats(table[column_of(one.metric)]), wanted.bests.get(one.metric))
        scores[name] = measured if alone else _average(measured, starts, sizes)
    called = _find_called(table, wanted.decision)
    firsts = pa.array(starts)
    columns = {
        name: table[name] if alone else table[name].take(firsts)
        for name in wanted.columns
        if name in table.column_names
    }
    any_called = called if alone else np.logical_or.reduceat(called, starts)
    return Instances(ids if alone else ids.take(firsts), scores, columns, any_called, first + starts)


def _measure(scores: Floats, best: float | None) -> Floats:
    """Returns the finite scores, or their distances from the best one."""
    finite = np.where(np.isfinite(scores), scores, np.nan)
    return finite if best is None else np.abs(finite - best)


def _measure_each(table: pa.Table, one: Compared, best: float | None, starts: Positions) -> np.ndarray:
    """Measures one instance after the other."""
    place, measure = column_of(one.metric), one.measure(best)
    scores, status = as_floats(table[place]).tolist(), table["status"].to_pylist()
    rows = [{place: score, "status": word} for score, word in zip(scores, status, strict=True)]
    ends = [*starts[1:].tolist(), len(rows)]
    found = [measure(rows[first:last]) for first, last in zip(starts.tolist(), ends, strict=True)]
    if one.quantile is None:
        return np.array(found, np.float64)
    made = np.empty(len(found), object)
    for i, some in enumerate(found):  # at once, numpy would take tuples of one length for rows
        made[i] = some
    return made


def _average(scores: Floats, starts: Positions, sizes: Positions) -> Floats:
    """Returns the mean of the trials of each instance, which are added one after the other as by `values.mean`."""
    totals, counts = np.zeros(len(starts)), np.zeros(len(starts), np.int64)
    for trial in range(int(sizes.max())):
        having = np.flatnonzero(sizes > trial)
        found = scores[starts[having] + trial]
        known = np.isfinite(found)
        totals[having[known]] += found[known]
        counts[having[known]] += 1
    with np.errstate(invalid="ignore"):
        return totals / counts


def _find_called(table: pa.Table, decision: str) -> Mask:
    if not decision:
        return np.ones(table.num_rows, np.bool_)
    left = compute.equal(table["status"], "not_called").fill_null(False).to_numpy()
    same = compute.equal(table["error_message"], f"not called: {decision}").fill_null(False).to_numpy()
    return ~(left & same)
