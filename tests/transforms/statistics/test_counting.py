"""Counts of many rows at once are those of pandas, slice by slice, and do not depend on how batches come."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, SliceKey
from evalbeam.transforms.statistics import slices
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.counting import ScoreTable
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

SLICES = [("c",), ("c", "l")]
FACTS = [MetricFacts("m", range=(0.0, 1.0), worst=0.0, threshold=Threshold(0.5)), MetricFacts("other")]
SCORES = st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, None]) | st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(st.tuples(st.sampled_from(["x", "y", "1", 1, 1.0, True, None]), st.sampled_from("ab"), SCORES))


def batch_of(rows: list[tuple[Any, str, float | None]], first: int, same: bool) -> ScoredBatch:
    """Rows with scores; `same` gives pairs of them equal inputs."""
    ids = [f"{i // 2:032x}-{i % 2}" if same else f"{i:032x}" for i in range(first, first + len(rows))]
    examples = [
        Example(Instance(id_, {"c": c, "l": d}), Invocation()) for id_, (c, d, _) in zip(ids, rows, strict=True)
    ]
    scores = [Score.skipped("none", "None.") if v is None else Score(v) for *_, v in rows]
    return ScoredBatch(examples, {"m": ScoreColumn.of(scores), "other": ScoreColumn.of(scores[::-1])})


@given(ROWS.filter(bool))
@settings(max_examples=100, deadline=None)
def test_counts_are_those_of_pandas(rows: list[tuple[Any, str, float | None]]) -> None:
    batch = batch_of(rows, 0, False)
    table = ScoreTable([(), *SLICES])
    table.add_rows(batch.examples)
    table.add_scores("m", batch.scores["m"].values, batch.scores["m"].status)
    found = {name: part for name, _, part in table.count({"m": lambda value: value >= 0.5})}
    texts = {1: "1"}
    frame = pd.DataFrame([("true" if c is True else texts.get(c, c), d, v) for c, d, v in rows], columns=list("clv"))
    frame["v"] = frame["v"].astype(float) + 0.0
    groups = {(): frame}
    for columns in SLICES:
        for key, group in frame.fillna({"c": "missing"}).groupby(list(columns)):
            groups[tuple((c, None if v == "missing" else v) for c, v in zip(columns, key, strict=True))] = group
    assert found.keys() == groups.keys()
    for name, part in found.items():
        values = groups[name]["v"]
        assert (part.rows, part.scored, part.skipped) == (len(values), values.count(), values.isna().sum())
        assert (part.counts, part.passes) == (values.value_counts().to_dict(), (values >= 0.5).sum())


@pytest.mark.parametrize("most", [1, 4, 1000])
@given(st.lists(st.tuples(ROWS, st.booleans()), max_size=5))
@settings(max_examples=50, deadline=None)
def test_batches_together_give_the_bytes_of_each_by_itself(most: int, given_: list) -> None:
    """Batches of rows that depend on each other, too, and whatever number of rows waits."""
    batches = [batch_of(rows, 100 * i, same) for i, (rows, same) in enumerate(given_)]
    whole: list[dict[SliceKey, Accumulator]] = [{}, {}]
    with mock.patch.object(slices, "MOST_ROWS", most):
        together = Partials(SLICES, FACTS)
        parts = [*(one for batch in batches for one in together.add(batch)), *together.take()]
    for into, found in zip(whole, (parts, [p for b in batches for p in Partials(SLICES, FACTS).count(b)]), strict=True):
        for key, part in found:
            into.setdefault(key, Accumulator()).absorb(part)
    assert {k: p.encode() for k, p in whole[0].items()} == {k: p.encode() for k, p in whole[1].items()}
    assert [*together.take()] == []
