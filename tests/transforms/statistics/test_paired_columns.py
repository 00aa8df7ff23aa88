"""Pairs that are added by column are those that are added one by one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.paired import HELD, Pairs, Scale
from evalbeam.transforms.statistics.paired_columns import PairColumns, pass_or_miss, share_gains

SCALES = [
    Scale(False, 0.0, 1.0),
    Scale(True, 1.0, 0.0, Threshold(0.5, True)),
    Scale(False, 1.0, 5.0, Threshold(3.0)),
    Scale(True),
]
scores = st.sampled_from([None, 0.0, 1.0, 0.1, 0.3, 0.7, 3.0, -2.5, 6.0])
instances = st.lists(st.tuples(st.integers(0, 3), scores, scores), max_size=80)


def add_columns(pairs: PairColumns, rows: list[tuple[str, float | None, float | None]], cuts: list[int]) -> None:
    """Adds the rows in portions that end at the cuts."""
    units = np.array([unit for unit, _, _ in rows], object)
    before, after = (np.array([row[side] for row in rows], float) for side in (1, 2))
    for first, last in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        pairs.add_all(units[first:last], before[first:last], after[first:last])


def describe(pairs: Pairs) -> dict[str, Any]:
    """All that is known of the pairs, and what they show."""
    known = asdict(pairs)
    cases = [one for one in (pairs.seen, pairs.worst, pairs.best) if one is not None]
    shown = [one.evidence(pairs.binary, pairs.most, 0.95, 640) for one in cases]
    return {**known, "means": pairs.means(), "shown": shown}


@given(
    st.sampled_from(SCALES),
    st.booleans(),
    st.booleans(),
    instances,
    st.lists(st.integers(0, 80), max_size=4),
)
def test_the_result_is_that_of_one_by_one(
    scale: Scale, clustered: bool, stopped: bool, given_: list[Any], cuts: list[int]
) -> None:
    rows, unit = [], 0
    for step, before, after in given_:
        unit += step > 0  # a step of 0 goes on with the unit
        rows.append((f"{unit:032x}", before, after))
    one, many = Pairs(scale, clustered, stopped), PairColumns(scale, clustered, stopped)
    for row in rows:
        one.add(*row)
    add_columns(many, rows, sorted(min(cut, len(rows)) for cut in cuts))
    assert describe(many) == describe(one)


@pytest.mark.parametrize("portion", [1, 1000, HELD - 1, HELD, 3 * HELD])
def test_many_units_that_change_are_put_together_alike(portion: int) -> None:
    draw = np.random.default_rng(1)
    rows: list[Any] = []
    for i in range(3 * HELD):
        before, after = draw.random(2)
        kept = draw.random()
        after = before if kept < 0.3 else None if kept > 0.999 else after
        rows += [(f"u{i}", before, after)] * (1 + (i % 11 == 0) + (i % 100 == 0))
    one, many = Pairs(SCALES[0]), PairColumns(SCALES[0])
    for row in rows:
        one.add(*row)
    add_columns(many, rows, list(range(portion, len(rows), portion)))
    assert describe(many) == describe(one)


@given(st.sampled_from(SCALES), st.lists(st.tuples(scores, scores), min_size=1))
def test_passing_and_gains_by_column_are_those_of_the_scale(scale: Scale, pairs: list[Any]) -> None:
    before, after = (np.array([pair[side] for pair in pairs], float) for side in (0, 1))
    passed, missed = pass_or_miss(scale, before)
    shares = share_gains(scale, before, after)
    for (old, new), *found, share in zip(pairs, passed.tolist(), missed.tolist(), shares.tolist(), strict=True):
        passes = None if old is None else scale.passes(old)
        assert found == [passes is True, passes is False]
        if old is None or new is None or old == new:
            assert np.isnan(share)
        else:
            assert share == scale.gain(old, new) / (scale.most or max(abs(old), abs(new)))
