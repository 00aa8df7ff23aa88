"""What every metric gets from its base: a batch that is its rows, a memo, faults kept to their row, ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score
from evalbeam.transforms.metrics.base import Metric, ScoringBatch, failure_of, score_safely


@dataclass(frozen=True)
class Share(Metric):
    """1 / n of the row."""

    range: ClassVar = (0.0, 1.0)

    def score(self, example: Example) -> Score:
        return Score(1 / example.get("n"), details={"n": example.get("n")})


def batch(*numbers: Any) -> ScoringBatch:
    return ScoringBatch([Example(Instance(str(n), {"n": n}), Invocation()) for n in numbers])


def test_a_batch_is_its_rows_and_a_fault_stays_in_its_row() -> None:
    column = Share().score_batch(batch(1, 0, 4))
    assert column.at(0) == Score(1.0, details={"n": 1})
    assert column.at(1) == Score.failed("ZeroDivisionError", "division by zero (test_base.py, line 22)")
    assert column.at(2) == Score(0.25, details={"n": 4})
    assert score_safely(Share(), batch("x").examples[0]).error.code == "TypeError"  # type: ignore[union-attr]


def test_what_metrics_share_is_computed_once() -> None:
    rows, asked = batch(1, None), []

    def compute() -> int:
        asked.append(1)
        return len(asked)

    assert [rows.share("a", compute), rows.share("a", compute), rows.share(("a", 2), compute)] == [1, 1, 2]
    assert rows.column("n") == [1, None]
    assert rows.column("n") is rows.column("n")
    assert rows.share("none", lambda: None) is rows.share("none", compute) is None


def test_texts_of_faults_are_the_same_in_every_run() -> None:
    first, second = (failure_of(ValueError(f"no {object()!r} in here")).error for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("range_", "best", "ends"),
    [
        (None, None, None),
        ((0.0, 1.0), None, (0, 1)),
        ((0.0, 1.0), 0.0, (1, 0)),
        ((1.0, 5.0), None, (1, 5)),
        ((-2.0, 2.0), 0.0, (-2, 0)),
        ((-1.0, 3.0), 0.0, (3, 0)),
    ],
)
def test_the_worst_score_is_the_end_farthest_from_the_best(range_: Any, best: Any, ends: Any) -> None:
    kind = type("Kind", (Share,), {"range": range_, "best": best})
    assert kind().ends() == ends
