"""What judges cost: sums that stay unknown where a part is, and their place in the summary."""

from __future__ import annotations

import datetime
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.config.evaluation import PriceConfig
from evalbeam.schemas.result import Summary, Tally
from evalbeam.schemas.usage import add_known
from evalbeam.transforms.judge_costs import add_costs, spending
from evalbeam.transforms.statistics.slices import MetricFacts

DAY = datetime.date(2026, 11, 1)
PRICES = {"m-1": PriceConfig(input=2.0, output=10.0, date=DAY)}
HALVED = {"m-1": PriceConfig(input=2.0, output=10.0, batch_input=1.0, batch_output=5.0, date=DAY)}
MODELS = {"one": "m-1", "two": "m-2"}
FACTS = (MetricFacts("computed"), MetricFacts("fluency"), MetricFacts("pairs", pairwise=True))


def row(metric: str, *slice_: tuple[str, str]) -> Summary:
    return Summary(slice_, metric, 3, 3, 0, 0)


def spent(*found: tuple[str, str, Tally]) -> list[dict]:
    return spending([((metric, judge, "live"), astuple(tally)) for metric, judge, tally in found], MODELS, PRICES)


@given(st.lists(st.one_of(st.none(), st.integers(0, 1000))))
def test_a_sum_is_unknown_where_a_part_is(values: list[int | None]) -> None:
    known = [v for v in values if v is not None]
    assert add_known(values) == (sum(known) if len(known) == len(values) else None)


def test_a_metric_carries_its_cost_once() -> None:
    shown = spent(("fluency", "one", Tally(3, 1, 0, 1_000_000, 100_000)), ("pairs", "one", Tally(3, 0, 0, 10, 0)))
    rates = [row(fact.name) for fact in FACTS[2].rows()]
    given_rows = [row("computed"), row("fluency"), row("fluency", ("locale", "en")), *rates]
    rows = add_costs(given_rows, FACTS, shown)
    costs = [(r.judge_calls, r.judge_input_tokens, r.judge_output_tokens, r.judge_cost) for r in rows]
    nothing = (None, None, None, None)
    assert costs == [nothing, (4, 1_000_000, 100_000, 3.0), nothing, (3, 10, 0, 2e-5), nothing, nothing]
    assert [r.judges is None for r in rows] == [True, False, True, False, True, True]


def test_what_one_judge_does_not_tell_is_unknown_for_the_metric_alone() -> None:
    answers = {"one": Tally(2, 0, 0, 1_000_000, 0), "two": Tally(2, 0, 0, 7, 1)}
    (found,) = add_costs([row("fluency")], FACTS, spent(*(("fluency", judge, t) for judge, t in answers.items())))
    assert (found.judge_calls, found.judge_input_tokens, found.judge_cost) == (4, 1_000_007, None)
    assert [(one["judge"], one["cost"]) for one in found.judges] == [("one", 2.0), ("two", None)]
    silent = spent(("fluency", "one", Tally(2, 0, 1, 5, 5)))
    (found,) = add_costs([row("fluency")], FACTS, silent)
    assert (found.judge_calls, found.judge_input_tokens, found.judge_cost) == (2, None, None)
    assert found.judges[0]["input_tokens"] is None


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (HALVED, 3.0 + 1.5),
        ({"m-1": HALVED["m-1"].model_copy(update={"batch_input": 0.0})}, 3.0 + 0.5),  # free is not unknown
        ({"m-1": HALVED["m-1"].model_copy(update={"batch_output": None})}, None),
        (PRICES, None),
        ({}, None),
    ],
)
def test_answers_of_batches_have_a_price_of_their_own(prices: dict[str, PriceConfig], cost: float | None) -> None:
    tally = astuple(Tally(2, 1, 0, 1_000_000, 100_000))
    found = [(("fluency", "one", way), tally) for way in ("live", "batch")]
    (one,) = spending(found, MODELS, prices)
    assert (one["answers"], one["failed"], one["input_tokens"], one["cost"]) == (4, 2, 2_000_000, cost)
    assert spending(found[:1], MODELS, HALVED)[0]["cost"] == 3.0
    assert spending(found, MODELS, prices, free=["one"])[0]["cost"] == 0.0
