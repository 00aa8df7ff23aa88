"""Rows that depend on each other: equal inputs, and equal values in columns, against statsmodels."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from evalbeam.schemas.batch import Batch
from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import ScoreColumn, ScoredBatch, SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.batch_rows import cut, sort_instances
from evalbeam.transforms.invoke import split
from evalbeam.transforms.statistics import clusters
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

FACTS = MetricFacts("m")
TAU_BENCH = Path(__file__).parents[4] / "shared" / "conformance" / "tau_bench" / "runs.jsonl"


def scored(rows: Sequence[Instance]) -> ScoredBatch:
    examples = [Example(row, Invocation()) for row in rows]
    return ScoredBatch(examples, {"m": ScoreColumn([row.row["score"] for row in rows])})


def accumulated(parts: Iterable[Sequence[Instance]], columns: Sequence[str] = ()) -> Accumulator:
    whole = Accumulator()
    for part in parts:
        [(_, found)] = Partials([()], [FACTS], cluster=columns).count(scored(part))
        whole.absorb(Accumulator.decode(found.encode()))
    return whole


def summary(rows: Sequence[Instance], columns: Sequence[str] = (), facts: MetricFacts = FACTS) -> Summary:
    parts = (batch for _, batch in cut(sort_instances(rows), 1))
    return summarize(SliceKey((), "m"), accumulated(parts, columns), facts, StatisticsConfig())


def robust_error(scores: Sequence[float], groups: Sequence[int]) -> float:
    """The cluster-robust standard error with the correction G / (G - 1) alone, by statsmodels."""
    options = {"groups": np.array(groups), "use_correction": False}
    fit = sm.OLS(np.array(scores), np.ones(len(scores))).fit(cov_type="cluster", cov_kwds=options)
    number = len(set(groups))
    return float(fit.bse[0]) * (number / (number - 1)) ** 0.5


@pytest.mark.parametrize("copies", [50, 300, 2000])
def test_ten_rows_copied_have_the_interval_of_ten_rows(copies: int) -> None:
    """2,000 copies of an input are more than a batch holds."""
    rng = np.random.default_rng(0)
    rows = [Instance(f"{i:032x}", {"score": float(s)}) for i, s in enumerate(rng.normal(0, 1, 10))]
    once, many = summary(rows), summary([row for row in rows for _ in range(copies)])
    assert (many.scored_count, many.n_clusters, many.ci_method) == (10 * copies, 10, "cluster")
    assert (many.ci_low, many.ci_high, many.se) == pytest.approx((once.ci_low, once.ci_high, once.se), rel=1e-12)
    assert many.design_effect == pytest.approx(copies)
    assert (many.median_ci_low, many.median_ci_high) == (once.median_ci_low, once.median_ci_high)
    assert (once.n_clusters, once.design_effect, once.ci_method) == (10, 1.0, "t")


@pytest.mark.parametrize("right", [0, 6, 10])
@pytest.mark.parametrize("facts", [MetricFacts("m"), MetricFacts("m", binary=True, range=(0.0, 1.0))])
def test_ten_shares_copied_have_the_interval_of_ten_rows(right: int, facts: MetricFacts) -> None:
    rows = [Instance(f"{i:032x}", {"score": float(i < right)}) for i in range(10)]
    once, many = summary(rows, facts=facts), summary([row for row in rows for _ in range(50)], facts=facts)
    assert (many.scored_count, many.n_clusters, many.ci_method) == (500, 10, "cluster")
    assert (many.ci_low, many.ci_high) == (once.ci_low, once.ci_high)
    assert once.ci_low == pytest.approx(proportion_confint(right, 10, method="wilson")[0])
    uneven = summary([row for i, row in enumerate(rows) for _ in range(50 + (i == 3))], facts=facts)
    assert (uneven.ci_low or 0.0) < (many.ci_low or 1e-9), "clusters of unequal sizes are no rows"


def test_some_equal_inputs_among_many_rows() -> None:
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 3000, 4000).tolist()
    levels = rng.normal(0, 1, 3000)
    rows = [Instance(f"{g:032x}", {"score": float(levels[g] + rng.normal())}) for g in groups]
    found = summary(rows)
    assert found.n_clusters == len(set(groups))
    assert found.se == pytest.approx(robust_error([r.row["score"] for r in rows], groups), rel=1e-10)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=6), st.integers(1, 5), st.integers(0, 99))
def test_an_input_is_one_cluster_however_batches_are_cut(copies: list[int], most: int, seed: int) -> None:
    """The errors are those of rows that were not cut."""
    rng = np.random.default_rng(seed)
    rows = [
        Instance(f"{i:032x}", {"score": float(rng.normal(i, 1)), "n": n})
        for i, many in enumerate(copies)
        for n in range(many)
    ]
    ordered = sort_instances(rows)
    pieces = [batch for _, batch in cut(ordered, 1, True, most)]
    assert [row for piece in pieces for row in piece] == ordered
    found = summarize(SliceKey((), "m"), accumulated(pieces), FACTS, StatisticsConfig())
    assert found.n_clusters == len(copies)
    groups = [int(row.instance_id[:32], 16) for row in ordered]
    assert found.se == pytest.approx(robust_error([r.row["score"] for r in ordered], groups), rel=1e-9)


def test_large_answers_do_not_cut_an_input_into_clusters() -> None:
    """Answers of 3 MB, of which two fit into a batch."""
    copies = {0: 1, 1: 2, 2: 5, 3: 4}
    rows = sort_instances(
        Instance(f"{i:032x}", {"score": float(i + n % 2), "n": n}) for i in copies for n in range(copies[i])
    )
    examples = [Example(row, Invocation("ok", "x" * (3 << 20))) for row in rows]
    pieces = [[e.instance for e in piece.rows] for piece in split(Batch(tuple(examples)))]
    assert [row for piece in pieces for row in piece] == rows
    assert len(pieces) > 4
    found = summarize(SliceKey((), "m"), accumulated(pieces), FACTS, StatisticsConfig())
    assert found.n_clusters == len(copies)


def conversations(number: int, groups: int) -> tuple[list[Instance], list[int]]:
    rng = np.random.default_rng(groups)
    of = rng.integers(0, groups, number)
    scores = rng.normal(0, 1, groups)[of] + rng.normal(0, 1, number)
    cells = zip(of.tolist(), scores.tolist(), strict=True)
    return [
        Instance(f"{i:032x}", {"score": s, "talk": f"c-{g}", "lang": g % 2}) for i, (g, s) in enumerate(cells)
    ], of.tolist()


@pytest.mark.parametrize("columns", [["talk"], ["talk", "lang"]])
def test_rows_with_equal_values_in_columns_are_a_cluster(columns: list[str]) -> None:
    rows, groups = conversations(3000, 120)
    found = summary(rows, columns)
    assert (found.n_clusters, found.ci_method) == (120, "cluster")
    assert found.se == pytest.approx(robust_error([r.row["score"] for r in rows], groups), rel=1e-12)


def test_a_row_that_lacks_the_column_is_a_cluster_by_itself() -> None:
    rows, groups = conversations(300, 30)
    rows = [Instance(r.instance_id, {**r.row, "talk": None}) if i < 20 else r for i, r in enumerate(rows)]
    alone = [1000 + i if i < 20 else g for i, g in enumerate(groups)]
    found = summary(rows, ["talk"])
    assert found.n_clusters == len(set(alone))
    assert found.se == pytest.approx(robust_error([r.row["score"] for r in rows], alone), rel=1e-12)


def test_too_many_clusters_are_put_together() -> None:
    """The error of 1,024 groups of clusters has a relative error of its own of 1 / sqrt(2 * 1023), 2.2 %."""
    rows, groups = conversations(12_000, 6000)
    found = summary(rows, ["talk"])
    assert found.n_clusters == pytest.approx(1024, rel=0.02)
    assert found.se == pytest.approx(robust_error([r.row["score"] for r in rows], groups), rel=0.07)


@pytest.mark.parametrize("most", [4096, 50])
def test_the_same_bytes_in_any_order_and_grouping(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(clusters, "MAX_OPEN", most)
    rows, _ = conversations(600, 80)
    expected = accumulated([rows], ["talk"]).encode()
    for size in (7, 64, 256):
        for seed in range(10):
            parts = [rows[i : i + size] for i in range(0, 600, size)]
            random.Random(seed).shuffle(parts)
            assert accumulated(parts, ["talk"]).encode() == expected


def test_tau_bench_s_tasks_are_clusters_of_their_trials() -> None:
    if not TAU_BENCH.exists():
        pytest.skip(f"needs the conformance data at {TAU_BENCH}")
    runs = [json.loads(line) for line in TAU_BENCH.read_text().splitlines()]
    tasks = [run["task_id"] for run in runs]
    rows = [
        Instance(f"{i:032x}", {"score": float(run["reward"]), "task": run["task_id"]}) for i, run in enumerate(runs)
    ]
    found = summary(rows, ["task"])
    assert (found.scored_count, found.n_clusters) == (40, 10)
    assert found.se == pytest.approx(robust_error([float(r["reward"]) for r in runs], tasks), abs=1e-12)


@pytest.mark.parametrize("size", [10, 300, 4097])
def test_sums_of_few_and_of_many_values_are_exact(size: int) -> None:
    rng = np.random.default_rng(size)
    values = rng.normal(0, 1, size) * 10.0 ** rng.integers(-320, 150, size)
    counts = dict(zip(values.tolist(), rng.integers(1, 5, size).tolist(), strict=True))
    total, squares = clusters.exact_sums(counts)
    assert Fraction(total.numerator, 1 << total.exponent) == sum(Fraction(v) * n for v, n in counts.items())
    assert Fraction(squares.numerator, 1 << squares.exponent) == sum(Fraction(v) ** 2 * n for v, n in counts.items())
