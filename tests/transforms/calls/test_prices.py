"""What calls cost while a run goes on."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.calls import Call, Outcome
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.config.evaluation import PriceConfig
from evalbeam.schemas.config.list_prices import find_price
from evalbeam.schemas.instance import Instance
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.calls.context import RunContext
from evalbeam.transforms.calls.prices import NANO, Prices
from evalbeam.transforms.invoke import InvokeAgent
from evalbeam.transforms.runtime import counters

OWN = {"own": PriceConfig(input=2.0, output=8.0), "other": PriceConfig(input=1.0, output=0.0)}


def call(endpoint: str = "agent") -> Call:
    return Call("key", {}, endpoint=endpoint)


def ok(usage: Any, **fields: Any) -> Outcome:
    return Outcome(kind="ok", value={"response": "a", "usage": usage}, **fields)


def test_tokens_are_priced_by_the_model_of_the_answer_or_of_the_endpoint() -> None:
    prices = Prices({"agent": "own", "judge:one": "other"}, OWN)
    outcomes = [
        ok({"input_tokens": 1000, "output_tokens": 500}),  # 0.002 + 0.004
        ok({"input_tokens": 1000, "output_tokens": 500, "model": "other"}),  # 0.001
        ok({"input_tokens": 3000, "output_tokens": 9}),  # 0.003
        ok({"input_tokens": 1000, "output_tokens": 0, "earlier": {"input_tokens": 500, "output_tokens": 0}}),  # 0.003
    ]
    calls = [call(), call(), call("judge:one"), call()]
    assert prices.add_up(calls, outcomes) == pytest.approx(0.013 * NANO, abs=1)


def test_what_is_not_paid_or_not_known_adds_nothing() -> None:
    usage = {"input_tokens": 1000, "output_tokens": 500}
    outcomes = [ok(usage, replayed=True), ok(None), Outcome(kind="permanent"), ok({**usage, "model": "unheard-of"})]
    assert Prices({"agent": "own"}, OWN).add_up([call()] * 4, outcomes) == 0


def test_without_prices_list_prices_count() -> None:
    listed = find_price("gpt-5")
    assert listed is not None
    spent = Prices({"agent": "gpt-5"}).add_up([call()], [ok({"input_tokens": 2000, "output_tokens": 100})])
    assert spent == pytest.approx((listed.cost(2000, 100) or 0) * NANO, abs=1)


ADDED: list[int] = []


class Counting(Prices):
    """Notes that it was asked."""

    def add_up(self, calls: Any, outcomes: Any) -> int:
        ADDED.append(len(list(calls)))
        return super().add_up(calls, outcomes)


def answer(prompt: str) -> dict[str, Any]:
    return {"response": prompt, "usage": {"input_tokens": 1000, "output_tokens": 0, "model": "own"}}


def make_calls() -> None:
    invoke = InvokeAgent(FunctionAgent(answer), CallPolicy(), context=RunContext(prices=Counting(prices=OWN)))
    batch = Batch(tuple(Instance(f"{i:032x}", {"prompt": str(i)}) for i in range(10)))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        made = pipeline | beam.Create([0], reshuffle=False) | beam.Map(lambda _: batch).with_output_types(Batch)
        _ = made | invoke


def test_costs_are_added_up_only_while_somebody_looks() -> None:
    ADDED.clear()
    make_calls()
    assert ADDED == []
    with counters.watched() as folder:
        make_calls()
        assert counters.totals(folder)["spent"] == pytest.approx(10 * 0.002 * NANO)
    assert ADDED == [10]
