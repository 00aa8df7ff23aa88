"""Instances drawn from a batch for the search of slices."""

from __future__ import annotations

from evalbeam.schemas.identity import HASHES
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import ScoreColumn, ScoredBatch
from evalbeam.transforms.find_slices import sample_batch


def sampled(scores: list[tuple[str, float | None]], below: int = HASHES) -> list[list[object]]:
    examples = [Example(Instance(id_, {}), Invocation("ok", "x")) for id_, _ in scores]
    batch = ScoredBatch(examples, {"m": ScoreColumn([score for _, score in scores])})
    return list(sample_batch(batch, ["m"], frozenset(), below))


def test_trials_of_an_instance_are_one_row_with_their_mean():
    ids = ["a" * 32, "b" * 32, f"{'b' * 32}-1"]
    rows = sampled([(ids[0], 0.0), (ids[0], 1.0), (ids[0], None), (ids[1], 0.25), (ids[2], None)])
    assert [(id_, scores) for _, id_, _, scores in rows] == [(ids[0], [0.5]), (ids[1], [0.25]), (ids[2], [None])]
    assert rows[1][0] == rows[2][0] != rows[0][0]  # hashes of inputs


def test_an_empty_batch_and_a_bound_of_zero_give_no_rows():
    assert sampled([]) == []
    assert sampled([("a" * 32, 1.0)], 0) == []
