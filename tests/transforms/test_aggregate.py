"""The summary table: merge laws, statistics against numpy, pandas and statsmodels, and published figures."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import numpy as np
import pandas as pd
import pytest
from apache_beam import coders
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from evalbeam.schemas.config.evaluation import CompatConfig, StatisticsConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, SliceKey, Summary
from evalbeam.transforms.aggregate import SummarizeScores, sort_summaries, summarize
from evalbeam.transforms.statistics import accumulators
from evalbeam.transforms.statistics.accumulators import MAX_DISTINCT, Accumulator, buckets_of, middle
from evalbeam.transforms.statistics.clusters import counted
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.slices import MetricFacts, Partials, distinct_slices

CONFORMANCE = Path(__file__).parents[2].parent / "shared" / "conformance"
FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = MetricFacts("m")


def conformance(name: str) -> Path:
    if not CONFORMANCE.is_dir():
        pytest.skip("the conformance data is not beside the project")
    return CONFORMANCE / name


def accumulated(values: Iterable[float]) -> Accumulator:
    values = list(values)
    whole = Accumulator()
    for i in range(0, len(values), 1024):
        part = values[i : i + 1024]
        whole.absorb(Accumulator(rows=len(part), scored=len(part), counts=counted(part)))
    return whole


def summary(values: Iterable[float], facts: MetricFacts = PLAIN, **options: Any) -> Summary:
    return summarize(SliceKey((), facts.name), accumulated(values), facts, StatisticsConfig(**options))


def batch_of(rows: Sequence[dict[str, Any]], scores: dict[str, Sequence[Score]]) -> ScoredBatch:
    examples = [Example(Instance(str(i), row), Invocation()) for i, row in enumerate(rows)]
    return ScoredBatch(examples, {name: ScoreColumn.of(column) for name, column in scores.items()})


def table(batches: Iterable[ScoredBatch], facts: Sequence[MetricFacts], slices: Any = (), **options: Any) -> list:
    whole: dict[SliceKey, Accumulator] = {}
    for batch in batches:
        for key, part in Partials(distinct_slices(slices), facts, **options).count(batch):
            whole.setdefault(key, Accumulator()).absorb(part)
    rows = {row.name: row for one in facts for row in one.rows()}
    return sort_summaries(
        (summarize(k, a, rows[k.metric], StatisticsConfig()) for k, a in whole.items()), facts, slices=slices
    )


@pytest.fixture(scope="module", params=[0, 3, MAX_DISTINCT])
def limit(request: pytest.FixtureRequest) -> int:
    return request.param


def merged(parts: Sequence[Accumulator], tree: st.DataObject, shipped: bool) -> Accumulator:
    """The parts merged pairwise in a drawn order; `shipped` through bytes each time."""
    parts = list(parts)
    while len(parts) > 1:
        left = parts.pop(tree.draw(st.integers(0, len(parts) - 1)))
        right = parts.pop(tree.draw(st.integers(0, len(parts) - 1)))
        left.absorb(right)
        parts.append(Accumulator.decode(left.encode()) if shipped else left)
    whole = Accumulator()
    for part in parts:
        whole.absorb(part)
    return whole


@given(st.lists(st.lists(FINITE | st.sampled_from([0.0, -0.0, 1.0, 0.5]), max_size=8), max_size=8), st.data())
@settings(max_examples=150, deadline=None)
def test_any_split_order_and_grouping_gives_the_same_bytes(limit: int, bundles: list, data: st.DataObject) -> None:
    with mock.patch.object(accumulators, "MAX_DISTINCT", limit):
        flat = data.draw(st.permutations([v for bundle in bundles for v in bundle]))
        one_by_one = Accumulator()
        for value in flat:
            one_by_one.absorb(Accumulator(rows=1, scored=1, passes=value > 0, counts=counted([value])))
        parts = [
            Accumulator(rows=len(b), scored=len(b), passes=sum(v > 0 for v in b), counts=counted(b)) for b in bundles
        ]
        whole = merged(parts, data, data.draw(st.booleans()))
        assert whole.encode() == one_by_one.encode()
        assert Accumulator.decode(whole.encode()) == whole
        assert (whole.sketch is None) == (len(set(flat)) <= limit)


def test_absorbing_leaves_the_other_as_it_was() -> None:
    for size in (10, 2 * MAX_DISTINCT):
        part, whole = accumulated(map(float, range(size))), accumulated([0.5, 1.0])
        before = part.encode()
        whole.absorb(part)
        whole.absorb(part)
        assert part.encode() == before
        assert whole.rows == 2 * size + 2


@given(st.lists(FINITE, min_size=1, max_size=60))
@example([0.0, 2.2250738585e-313])
@settings(deadline=None)
def test_mean_and_variance_are_correctly_rounded(limit: int, values: list[float]) -> None:
    exact = [Fraction(v) for v in values]
    with mock.patch.object(accumulators, "MAX_DISTINCT", limit):
        found = summary(values)
    assert found.mean == float(sum(exact) / len(exact))
    assert (found.min, found.max) == (min(values), max(values))
    if len(values) == 1:
        assert (found.std, found.variance, found.se) == (None,) * 3
        assert found.ci_method == ("wilson" if values[0] in (0.0, 1.0) else None)
        return
    variance = statistics.variance(exact)
    try:
        assert found.variance == float(variance)
    except OverflowError:
        assert found.variance is None
    for ours, square in ((found.std, variance), (found.se, variance / len(values))):
        if ours is not None:
            few = 2 * Fraction(math.ulp(ours))  # of subnormal numbers, which have fewer digits, this is coarser
            assert max(Fraction(ours) - few, Fraction(0)) ** 2 <= square <= (Fraction(ours) + few) ** 2


@given(st.lists(st.integers(-(10**9), 10**9).map(lambda i: i / 1000) | st.sampled_from([0.0, 1.0]), min_size=2))
@settings(deadline=None)
def test_statistics_are_those_of_pandas(values: list[float]) -> None:
    found, series = summary(values), pd.Series(values)
    size = max(map(abs, values))
    assert found.mean == pytest.approx(series.mean(), rel=1e-12, abs=1e-12 * size)
    for ours, theirs in ((found.std, series.std()), (found.se, series.sem())):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9 * size)
    assert found.variance == pytest.approx(series.var(), rel=1e-9, abs=1e-9 * size**2)
    quantiles = (found.median, found.p90, found.p95, found.p99)
    assert quantiles == pytest.approx(np.quantile(values, [0.5, 0.9, 0.95, 0.99]), rel=1e-12, abs=1e-12 * size)
    assert found.mode == series.mode().min()


def scattered(size: int) -> np.ndarray:
    """Distinct values over twelve powers of ten, both signs, in no order, by a fixed rule."""
    i = np.arange(1, size + 1, dtype=np.uint64)
    u = (i * np.uint64(0x9E3779B97F4A7C15) % np.uint64(2**64 - 59)).astype(float) / 2**64
    return np.where(i % np.uint64(5) == 0, -1, 1) * 10.0 ** (12 * u - 6)


def test_beyond_exact_counts_moments_stay_exact_and_quantiles_within_half_a_percent() -> None:
    values = scattered(20_000)
    accumulator, found = accumulated(values.tolist()), summary(values.tolist())
    assert accumulator.sketch is not None
    assert not accumulator.counts
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert found.std == pytest.approx(values.std(ddof=1), rel=1e-12)
    assert (found.min, found.max) == (values.min(), values.max())
    expected = np.quantile(values, [0.5, 0.9, 0.95, 0.99])
    assert (found.median, found.p90, found.p95, found.p99) == pytest.approx(expected, rel=0.005)


def test_exact_counts_reach_to_their_limit() -> None:
    for size in (MAX_DISTINCT, MAX_DISTINCT + 1):
        values = scattered(size)
        found = summary(values.tolist())
        assert (found.median == np.median(values)) == (size <= MAX_DISTINCT)
        assert (found.mode == values.min()) == (size <= MAX_DISTINCT)


def test_the_mode_of_buckets_is_the_fullest_one() -> None:
    values = [*scattered(MAX_DISTINCT + 1).tolist(), *[2.5] * 500]
    assert summary(values).mode == pytest.approx(2.5, rel=0.005)


@given(st.lists(FINITE, min_size=1))
def test_buckets_are_in_order_and_their_middles_near(values: list[float]) -> None:
    values.sort()
    numbers = buckets_of(values).tolist()
    assert numbers == sorted(numbers)
    for value, number in zip(values, numbers, strict=True):
        assert abs(middle(number) - value) <= max(0.004 * abs(value), 1e-310)
        assert buckets_of([middle(number)]).tolist() == [number]


BINARY = MetricFacts("m", binary=True, worst=0.0, best=1.0)
GRADE, RATE = MetricFacts("m", range=(1.0, 5.0)), MetricFacts("m", range=(0.0, 1.0))


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_are_statsmodels(level: float) -> None:
    for good, n in ((0, 1), (1, 1), (0, 9), (185, 196), (15, 16)):
        values = [1.0] * good + [0.0] * (n - good)
        for ci, method in (("auto", "wilson"), ("normal", "normal")):
            found = summary(values, BINARY, ci=ci, confidence=level)
            assert found.ci_method == method
            expected = proportion_confint(good, n, 1 - level, method)
            assert (found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-10, abs=1e-15)
    values = scattered(300).tolist()
    whole = DescrStatsW(np.array(values))
    for ci, method, expected in (
        ("auto", "t", whole.tconfint_mean(1 - level)),
        ("normal", "normal", whole.zconfint_mean(1 - level)),
    ):
        found = summary(values, PLAIN, ci=ci, confidence=level)
        assert found.ci_method == method
        assert (found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("facts", [PLAIN, BINARY, RATE])
def test_scores_that_are_all_0_or_1_are_shares_whatever_the_metric_says(facts: MetricFacts) -> None:
    for good in range(11):
        found = summary([1.0] * good + [0.0] * (10 - good), facts)
        expected = proportion_confint(good, 10, 0.05, "wilson")
        assert (found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert (found.ci_method, found.ci_low < found.ci_high) == ("wilson", True)


def test_a_mean_of_scores_with_a_range_is_wilson_s_with_student_s_quantile_on_it() -> None:
    for values in ([1.0, 2.0, 5.0, 5.0, 4.0], [5.0, 5.0, 5.0, 4.0], [1.0, 1.0, 5.0, 5.0]):
        found, n, m = summary(values, GRADE), len(values), (np.mean(values) - 1) / 4
        n_eff, t = max(n, 1 + m * (1 - m) / (np.std(values, ddof=1) / 4) ** 2 * n), stats.t.isf(0.025, n - 1)
        centre = (m + t * t / (2 * n_eff)) / (1 + t * t / n_eff)
        half = t * math.sqrt(m * (1 - m) / n_eff + (t / (2 * n_eff)) ** 2) / (1 + t * t / n_eff)
        expected = (1 + 4 * (centre - half), 1 + 4 * (centre + half))
        assert (found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-12)
        assert found.ci_method == "wilson"


@pytest.mark.parametrize("value", [1.0, 2.0, 3.5, 5.0])
def test_equal_scores_leave_open_what_was_not_seen(value: float) -> None:
    """Of n equal scores, Wilson's bound on the share of others, which may lie at either end of the range."""
    for n in (1, 2, 50):
        found = summary([value] * n, GRADE)
        unseen = proportion_confint(0, n, 0.05, "wilson")[1]
        expected = value - unseen * (value - 1), value + unseen * (5 - value)
        assert (found.ci_low, found.ci_high) == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.floats(1, 5), min_size=1, max_size=30))
def test_a_ranged_interval_has_a_width_and_stays_in_the_range(values: list[float]) -> None:
    found = summary(values, GRADE)
    assert 1.0 <= found.ci_low <= found.mean <= found.ci_high <= 5.0
    assert found.ci_low < found.ci_high
    found = summary(values, GRADE, ci="normal")
    assert found.ci_low is None or 1.0 <= found.ci_low <= found.ci_high <= 5.0


def test_scores_beyond_their_metric_s_range_have_none() -> None:
    assert summary([1.0, 2.0, 5.5], GRADE).ci_method == "t"
    assert summary([0.0, 0.5, 1.0], PLAIN).ci_method == "t"


@pytest.mark.parametrize("n", [10, 24, 50, 200])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95, 0.99])
def test_intervals_of_shares_cover_in_the_exact_distribution(n: int, p: float) -> None:
    found = [summary([1.0] * k + [0.0] * (n - k), PLAIN) for k in range(n + 1)]
    covering = [k for k, s in enumerate(found) if s.ci_low <= p <= s.ci_high]
    assert stats.binom.pmf(covering, n, p).sum() >= 0.9


@pytest.mark.parametrize("n", [10, 24, 50, 200])
@pytest.mark.parametrize("p", [0.5, 0.8, 0.95, 0.99])
def test_intervals_of_ratings_and_fractions_cover(n: int, p: float) -> None:
    """1 + a binomial of four, and shares of four checks passed: 1,000 datasets each, of one seed."""
    rng = np.random.default_rng(round(1000 * p) + n)
    counts = rng.binomial(4, p, (1000, n))
    for facts, low, step in ((GRADE, 1.0, 1.0), (RATE, 0.0, 0.25)):
        true = low + step * 4 * p
        found = [summary((low + step * row).tolist(), facts) for row in counts]
        assert sum(s.ci_low <= true <= s.ci_high for s in found) >= 900


def test_bounds_take_unscored_rows_at_the_ends_of_the_range() -> None:
    scores = [Score(4.0), Score(3.0), Score.failed("e", "m"), Score.skipped("agent_failed", "m")]
    batch = batch_of([{}] * 5, {"m": [*scores, Score(status="not_applicable")]})
    facts = [MetricFacts("m", worst=1.0, best=5.0)]
    [found] = table([batch], facts)
    assert (found.mean, found.worst_case_mean, found.best_case_mean) == (3.5, 9 / 4, 17 / 4)
    assert (found.row_count, found.scored_count, found.error_count, found.skipped_count) == (5, 2, 1, 2)
    assert found.coverage == 0.4
    [found] = table([batch], facts, on_failure="worst")
    assert (found.mean, found.worst_case_mean, found.best_case_mean) == (8 / 3, 9 / 4, 13 / 4)
    assert (found.scored_count, found.skipped_count, found.coverage) == (2, 2, 0.4)
    [found] = table([batch], [MetricFacts("m")])
    assert (found.worst_case_mean, found.best_case_mean) == (None, None)


def test_pass_rate_is_a_share_of_the_values_that_count() -> None:
    facts = [MetricFacts("m", threshold=Threshold(0.5))]
    batch = batch_of([{}] * 5, {"m": [*map(Score, (0.4, 0.5, 1.0, 0.0)), Score.failed("e", "m")]})
    [found] = table([batch], facts)
    assert (found.pass_rate, found.threshold) == (0.5, 0.5)
    [found] = table([], facts)
    assert (found.pass_rate, found.threshold) == (None, 0.5)


def test_rows_of_the_table_are_in_order_and_an_empty_dataset_has_its_rows() -> None:
    facts = [MetricFacts("b"), MetricFacts("p", pairwise=True), MetricFacts("a")]
    values = {"b": [Score(1.0)] * 3, "p": [Score(label="TIE")] * 3, "a": [Score(2.0)] * 3}
    batch = batch_of([{"c": "y", "l": "1"}, {"l": "1"}, {"c": "x", "l": "1"}], values)
    rates = ["p/candidate_model_win_rate", "p/baseline_model_win_rate", "p/tie_rate"]
    found = table([batch], facts, slices=[["l"], ["c"]])
    slices = [(), (("l", "1"),), (("c", None),), (("c", "x"),), (("c", "y"),)]
    assert [(s.slice, s.metric) for s in found] == [(s, m) for s in slices for m in ["b", *rates, "a"]]
    empty = table([], facts, slices=[["c"]])
    assert [(s.metric, s.row_count, s.coverage, s.mean) for s in empty] == [
        (m, 0, None, None) for m in ["b", *rates, "a"]
    ]


def test_constant_scores_have_no_spread() -> None:
    found = summary([0.1] * 10)
    assert (found.mean, found.std, found.variance, found.se) == (0.1, 0.0, 0.0, 0.0)
    assert (found.ci_low, found.ci_high, found.median, found.p99, found.mode) == (0.1, 0.1, 0.1, 0.1, 0.1)


# In the graph


def batches_of(cells: Sequence[tuple[str, float | None, str]], sizes: Sequence[int]) -> list[ScoredBatch]:
    found, at = [], 0
    while at < len(cells):
        part = cells[at : at + sizes[len(found) % len(sizes)]]
        at += len(part)
        scores = [Score(v) if v is not None else Score.failed("e", "m") for _, v, _ in part]
        values = {"m": scores, "p": [Score(label=label) for _, _, label in part]}
        found.append(batch_of([{"c": c} for c, _, _ in part], values))
    return found


def test_the_transform_gives_the_table_whatever_the_batches(limit: int) -> None:
    facts = (MetricFacts("m", worst=-1.0, best=1.0), MetricFacts("p", pairwise=True))
    labels = ("CANDIDATE", "BASELINE", "TIE", "CANDIDATE")
    cells = [("abc"[i % 3], None if i % 7 == 0 else math.sin(i), labels[i % 4]) for i in range(500)]
    expected = []
    with mock.patch.object(accumulators, "MAX_DISTINCT", limit):
        for order, sizes in ((cells, [500]), (cells[::-1], [1, 7, 40])):
            transform = SummarizeScores(facts, (("c",),), StatisticsConfig(on_failure="worst"), CompatConfig())
            expected = expected or table([*batches_of(cells, [500])], facts, slices=[["c"]])
            with beam.Pipeline(runner=FnApiRunner()) as p:
                found = p | beam.Create(batches_of(order, sizes)) | transform
                assert_that(found, equal_to(expected))
            assert transform_coders(p) == {"SliceKeyCoder", "AccumulatorCoder", "SummaryCoder"}


def transform_coders(p: beam.Pipeline) -> set[str]:
    """Classes of the coders of everything between the batches and the summaries, tuples taken apart."""
    proto, context = p.to_runner_api(return_context=True)
    names: set[str] = set()
    for node in proto.components.transforms.values():
        if "SummarizeScores" in node.unique_name:
            for pcollection in node.outputs.values():
                coder = context.coders.get_by_id(proto.components.pcollections[pcollection].coder_id)
                names |= {type(c).__name__ for c in leaves(coder)}
    return names


def leaves(coder: coders.Coder) -> Iterable[coders.Coder]:
    inner = coder._get_component_coders()
    return [leaf for c in inner for leaf in leaves(c)] if inner else [coder]


@given(st.lists(st.tuples(st.text(max_size=3), st.none() | st.text(max_size=3)), max_size=3), st.text(max_size=5))
def test_coders_give_back_what_they_were_given(pairs: list, metric: str) -> None:
    key = SliceKey(tuple(pairs), metric)
    full = summary([0.1, 1 / 3], MetricFacts("m", worst=0.0, best=1.0, threshold=Threshold(0.3)))
    for value in (key, Summary(key.slice, metric, 1, 1, 0, 0), dataclasses.replace(full, slice=key.slice)):
        coder = coders.registry.get_coder(type(value))
        found = coder.decode(coder.encode(value))
        assert (type(found), found) == (type(value), value)
        assert coder.is_deterministic()


# Published figures


def test_home_assistant_slices() -> None:
    lines = conformance("home_assistant/assist_mini_runs.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    published = json.loads(conformance("home_assistant/published_slices.json").read_text())
    batches = [
        batch_of(rows[i : i + 100], {"good": [Score(r["score"]) for r in rows[i : i + 100]]})
        for i in range(0, len(rows), 100)
    ]
    facts = [MetricFacts("good", binary=True, worst=0.0, best=1.0)]
    whole: dict[SliceKey, Accumulator] = {}
    for batch in batches:
        for key, part in Partials(distinct_slices([["model_id"], ["model_id", "category"]]), facts).count(batch):
            whole.setdefault(key, Accumulator()).absorb(part)
    found = {"-".join(str(v) for _, v in key.slice): (key, part) for key, part in whole.items()}
    assert found[""][1].rows == 588
    expected = [(p["model_id"], p) for p in published["by_model"]]
    expected += [(p["model_id-category"], p) for p in published["by_model_category"]]
    assert len(found) == len(expected) + 1
    for name, row in expected:
        s = summarize(*found[name], facts[0], StatisticsConfig(ci="normal"))
        assert s.mean is not None
        assert s.ci_low is not None
        assert (round(s.mean * s.scored_count), s.row_count) == (row["good"], row["total"])
        assert (f"{s.mean:.1%}", f"{s.mean - s.ci_low:.1%}") == (row["good_percent"], row["confidence_interval"])


def test_published_pairwise_summary() -> None:
    published = json.loads(conformance("vertex/summaries.json").read_text())["pairwise_with_ties"]
    names = ("pairwise_verbosity", "pairwise_safety")
    scores = {n: [Score(label=row[f"{n}/pairwise_choice"]) for row in published["rows"]] for n in names}
    found = table([batch_of(published["rows"], scores)], [MetricFacts(n, pairwise=True) for n in names])
    means = {s.metric: s.mean for s in found}
    for name, value in published["summary"].items():
        assert name == "row_count" or means[name] == value, name
    assert means["pairwise_safety/tie_rate"] == 1.0


def published_runs() -> list[tuple[list[dict], dict]]:
    runs = json.loads(conformance("vertex/trajectory_runs.json").read_text())["runs"]
    single = json.loads(conformance("vertex/summaries.json").read_text())["single_tool_use"]
    return [(r["rows"], r["summary_metrics"]) for r in runs] + [(single["rows"], single["summary"])]


def test_published_trajectory_summaries() -> None:
    checked = 0
    for rows, published in published_runs():
        wanted = ("/score", "latency_in_seconds", "failure")
        columns = {key for row in rows for key in row if key.endswith(wanted)}
        scores = {c.removesuffix("/score"): [Score(row[c]) for row in rows] for c in columns}
        found = {s.metric: s for s in table([batch_of(rows, scores)], [MetricFacts(n) for n in scores])}
        for name, value in published.items():
            metric, _, statistic = name.rpartition("/")
            if metric:
                assert getattr(found[metric], statistic) == pytest.approx(value, abs=1.1e-6), name
                checked += 1
    assert checked > 30
