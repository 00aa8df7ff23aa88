"""Waves: which rows are called together, what is known after them, and how often that is wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.config.sequential import SequentialConfig
from evalbeam.schemas.identity import selection_hash
from evalbeam.schemas.instance import Example, Instance
from evalbeam.schemas.result import Score
from evalbeam.transforms.agents.function import FunctionAgent
from evalbeam.transforms.facts import DatasetStats
from evalbeam.transforms.follow import WaveCaller, _first_rows, _join, cut_waves
from evalbeam.transforms.invoke import AgentCaller
from evalbeam.transforms.metrics._inputs import ConfiguredMetric
from evalbeam.transforms.metrics.base import Metric
from evalbeam.transforms.runtime.dialogue import play
from evalbeam.transforms.statistics.following import Followed


@dataclass(frozen=True)
class Number(Metric):
    """The answer as a number."""

    inputs: ClassVar[tuple[str, ...]] = ("response",)
    range: ClassVar[tuple[float, float] | None] = (1.0, 5.0)

    def score(self, example: Example) -> Score:
        return Score(float(example.get("response")))


@dataclass(frozen=True)
class Share(Number):
    """The answer as 0 or 1."""

    range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    binary: ClassVar[bool] = True


def caller(metric: Metric, threshold: float, trials: int = 1, **rule: Any) -> WaveCaller:
    agent = AgentCaller(FunctionAgent(repr), CallPolicy(), trials)
    given = SequentialConfig(metric="m", threshold=threshold, **rule)
    return WaveCaller(agent, None, given, ConfiguredMetric("m", metric), worst=metric.range and metric.range[0])


def instances(count: int, copies: int = 1) -> list[Instance]:
    ids = [hashlib.sha256(str(i).encode()).hexdigest()[:32] for i in range(count)]
    return [Instance(f"{i}-{k}" if k else i, {"prompt": i}) for i in ids for k in range(copies)]


def follow(made: WaveCaller, rows: Sequence[Instance], answer: Any) -> tuple[Followed, list[int]]:
    """What is known in the end, and the calls of each wave; `answer` gives the outcome of a call by its number."""
    waves: list[int] = []

    def answers(calls: list[Any]) -> list[Outcome]:
        waves.append(len(calls))
        return [answer(sum(waves[:-1]) + i) for i in range(len(calls))]

    return play(made.work(_join(0, [Batch(tuple(rows))])), answers), waves


def said(value: float) -> Outcome:
    return Outcome({"response": str(value)})


# The figures are those of a share of .95, .9 and .85 that is held against .8.
@pytest.mark.parametrize(("share", "rows"), [(0.95, 78), (0.9, 187), (0.85, 792)])
def test_a_share_away_from_the_threshold_is_decided_after_so_many_rows(share: float, rows: int) -> None:
    chance, known = np.random.default_rng(3), caller(Share(), 0.8)
    stops = []
    for _ in range(300):
        values = (chance.random(10_000) < share).astype(float)
        found = next(f for n in range(50, 10_001, 50) if (f := known.look(n, values[:n])).side)
        assert found.side == "above" or share < 0.95
        stops.append(found.rows)
    assert np.mean(stops) == pytest.approx(rows, rel=0.1)


def test_a_share_at_the_threshold_is_decided_in_at_most_5_percent_of_2000_runs() -> None:
    chance, known = np.random.default_rng(4), caller(Share(), 0.8)
    looks = np.arange(50, 1_001, 50)

    @cache
    def decided(rows: int, passed: int) -> bool:
        return known.look(rows, [1.0] * passed + [0.0] * (rows - passed)).side is not None

    wrong = 0
    for _ in range(2_000):
        passed = (chance.random(1_000) < 0.8).cumsum()[looks - 1]
        wrong += any(map(decided, looks.tolist(), passed.tolist()))
    assert wrong <= 0.05 * 2_000


def test_a_rating_at_the_threshold_is_decided_in_at_most_5_percent_of_2000_runs() -> None:
    """What the last look leaves out is what any look left out, so one look shows all."""
    chance, known = np.random.default_rng(5), caller(Number(), 3.4)
    odds = [0.1, 0.15, 0.25, 0.25, 0.25]  # of 1 to 5: the mean is 3.4
    wrong = sum(known.look(250, chance.choice([1, 2, 3, 4, 5], 250, p=odds)).side is not None for _ in range(2_000))
    assert wrong <= 0.05 * 2_000


def test_copies_of_inputs_do_not_make_a_wrong_decision_likelier() -> None:
    """Each input occurs three times, and its three scores are often equal: they count as one."""
    chance, known = np.random.default_rng(6), caller(Share(), 0.8)
    wrong = 0
    for _ in range(500):
        inputs = chance.beta(0.8, 0.2, 400)
        means = chance.binomial(3, inputs) / 3
        wrong += any(known.look(3 * n, means[:n]).side for n in range(50, 401, 50))
    assert wrong <= 0.05 * 500


@given(st.integers(0, 60), st.integers(1, 3), st.integers(1, 20))
def test_waves_hold_whole_inputs_in_the_order_of_their_hashes(count: int, copies: int, inputs: int) -> None:
    rows = _join(0, [Batch(tuple(instances(count, copies)))]).rows
    waves = list(cut_waves(rows, inputs))
    assert [row for wave in waves for row in wave] == list(rows)
    assert {len(wave) for wave in waves[:-1]} <= {inputs * copies}
    hashes = [selection_hash(row.instance_id) for row in rows]
    assert hashes == sorted(hashes)


def test_the_order_does_not_depend_on_how_rows_arrive() -> None:
    rows = instances(50, 2)
    whole = _join(0, [Batch(tuple(rows))])
    assert _join(0, [Batch(tuple(rows[i::7][::-1])) for i in (3, 0, 6, 1, 5, 2, 4)]) == whole


def test_of_a_large_dataset_the_first_10000_rows_are_followed() -> None:
    rows = tuple(instances(2_000))

    def first(known: int, size: int = 1_000, sample: float = 1.0) -> list[int]:
        key, few = _first_rows(Batch(rows), DatasetStats(rows=known, bytes=size), sample)
        assert key == 0
        return [selection_hash(row.instance_id) for row in few.rows]

    assert 150 < len(first(100_000)) < 250
    assert max(first(100_000)) < 2**64 / 10
    assert len(first(2_000)) == 2_000
    assert len(first(2_000, 4 << 30)) < 200
    assert len(first(50_000, sample=0.5)) == len(first(100_000)), "the hashes of a sample are in its share"


def test_waves_end_when_the_mean_is_decided() -> None:
    found, waves = follow(caller(Share(), 0.5, wave=10), instances(200), lambda i: said(1.0))
    assert (found.side, found.rows, waves) == ("above", 10, [10])
    assert found.closed == f"decided after 10 rows: m is above 0.5 ({found.low:.4g} … 1 at 0.95)"
    below, waves = follow(caller(Number(), 4.5, wave=10), instances(200), lambda i: said(1.0))
    assert (below.side, below.rows) == ("below", sum(waves))
    assert below.low == 1.0 < 1.01 < (below.high or 0) < 4.5


def test_without_a_decision_all_rows_are_called() -> None:
    found, waves = follow(caller(Share(), 0.5, wave=40), instances(100), lambda i: said(i % 2))
    assert (found.side, found.closed, waves) == (None, "", [40, 40, 20])
    assert found.text == f"not decided after 100 rows: m may be 0.5 ({found.low:.4g} … {found.high:.4g} at 0.95)"


@pytest.mark.parametrize("kind", ["not_called", "over_budget"])
def test_a_wave_that_was_not_called_whole_is_not_looked_at(kind: Any) -> None:
    found, waves = follow(
        caller(Share(), 0.99, wave=20), instances(100), lambda i: said(1) if i < 25 else Outcome(kind=kind)
    )
    assert (found.side, found.rows, waves) == (None, 20, [20, 20])


def test_trials_and_copies_are_one_value_and_failures_count_as_configured() -> None:
    failed = Outcome(kind="permanent", error_type="ValueError", error_message="no")
    made = caller(Number(), 3, trials=2, wave=2)
    found, waves = follow(made, instances(2, 3), lambda i: failed if i % 6 == 0 else said(5))
    assert waves == [12]
    expected = made.look(6, [(1 + 5 * 5) / 6] * 2)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    without = caller(Number(), 3, trials=2, wave=2)
    without = WaveCaller(without.agent, None, without.rule, without.use)
    found, _ = follow(without, instances(2, 3), lambda i: failed if i % 6 == 0 else said(5))
    assert found == without.look(6, [5.0] * 2)
    nothing, _ = follow(without, instances(2), lambda i: failed)
    assert nothing.text == "not decided: m scored none of the first 2 rows"


def test_scores_beyond_the_range_decide_nothing_and_the_run_goes_on() -> None:
    found, waves = follow(caller(Number(), 3, wave=10), instances(30), lambda i: said(7 if i == 4 else 5))
    assert (found.side, found.closed, waves) == (None, "", [10])
    assert found.text == "not decided: m scored 7, which is beyond its range 1 to 5"
