"""pass^k and pass@k: against all choices of k trials, tau-bench's and HumanEval's formulas, and statsmodels."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score, ScoreColumn, ScoredBatch, SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.criteria import Threshold
from evalbeam.transforms.statistics.instances import pass_partials
from evalbeam.transforms.statistics.pass_rates import PassRate
from evalbeam.transforms.statistics.slices import MetricFacts, distinct_slices

TAU_BENCH = Path(__file__).parents[4] / "shared" / "conformance" / "tau_bench" / "runs.jsonl"
TRIALS = st.lists(st.sampled_from(["pass", "miss", "failed", "error", "skipped"]), min_size=1, max_size=5)
ONE = Threshold(1.0)
SCORES = {
    "pass": Score(1.0),
    "miss": Score(0.0),
    "failed": Score.skipped("agent_failed", "the agent gave no answer"),
    "error": Score.failed("judge_failed", "no verdict"),
    "skipped": Score.skipped("missing_reference", "the row has no reference"),
}


def facts_of(*numbers: int, threshold: Threshold = ONE) -> list[MetricFacts]:
    rates = [PassRate("m", k, every, threshold) for k in numbers for every in (True, False)]
    return [MetricFacts(r.name, worst=0.0, best=1.0, range=(0.0, 1.0), passes=r) for r in rates]


def batch_of(instances: list[tuple[str, list[Score], dict[str, Any]]]) -> ScoredBatch:
    examples = [
        Example(Instance(name, row), Invocation(), trial)
        for name, scores, row in instances
        for trial in range(len(scores))
    ]
    return ScoredBatch(examples, {"m": ScoreColumn.of([s for _, scores, _ in instances for s in scores])})


def merged(batches: list[ScoredBatch], facts: list[MetricFacts], **options: Any) -> dict[SliceKey, Accumulator]:
    found: dict[SliceKey, Accumulator] = defaultdict(Accumulator)
    slices = options.pop("slices", ())
    for batch in batches:
        for key, part in pass_partials(batch, distinct_slices(slices), facts, **options):
            found[key].absorb(Accumulator.decode(part.encode()))
    return found


def summaries(batches: list[ScoredBatch], facts: list[MetricFacts], **options: Any) -> dict[SliceKey, Summary]:
    of = {one.name: one for one in facts}
    found = merged(batches, facts, **options).items()
    settings = StatisticsConfig(ci="bootstrap" if options.get("resample") else "auto")
    return {key: summarize(key, part, of[key.metric], settings) for key, part in found}


def named(trials: list[list[str]], row: dict[str, Any] | None = None) -> list[tuple[str, list[Score], dict[str, Any]]]:
    return [(f"{i:032x}", [SCORES[one] for one in kinds], row or {}) for i, kinds in enumerate(trials)]


@given(st.lists(TRIALS, min_size=1, max_size=8), st.integers(1, 5), st.integers(1, 8))
def test_rates_are_shares_of_all_choices_of_trials(trials: list[list[str]], k: int, size: int) -> None:
    """The choices are made one by one; a failed trial does not pass, and one without a score does not count."""
    every, one = [], []
    for kinds in trials:
        counted = [kind == "pass" for kind in kinds if kind in ("pass", "miss", "failed")]
        choices = list(combinations(counted, k))
        if choices:
            every.append(Fraction(sum(map(all, choices)), len(choices)))
            one.append(Fraction(sum(map(any, choices)), len(choices)))
    instances = named(trials)
    batches = [batch_of(instances[i : i + size]) for i in range(0, len(instances), size)]
    found = summaries(batches, facts_of(k))
    for name, expected in ((f"m/pass^{k}", every), (f"m/pass@{k}", one)):
        row = found[SliceKey((), name)]
        assert (row.row_count, row.scored_count, row.skipped_count) == (
            len(trials),
            len(expected),
            len(trials) - len(expected),
        )
        if not expected:
            assert row.mean is None
            continue
        assert row.mean == pytest.approx(float(sum(expected) / len(expected)), abs=1e-15)
        values = [float(v) for v in expected]
        assert row.se == (pytest.approx(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else None)
        assert row.ci_low <= row.mean <= row.ci_high
        assert row.worst_case_mean == pytest.approx(math.fsum(values) / len(trials))


def human_eval(n: int, c: int, k: int) -> float:
    """The numerically stable form that HumanEval publishes."""
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


@pytest.mark.parametrize(
    ("n", "c", "k"), [(200, 3, 1), (200, 3, 10), (200, 3, 100), (200, 0, 10), (5, 5, 5), (2000, 40, 300)]
)
def test_pass_at_k_is_that_of_human_eval(n: int, c: int, k: int) -> None:
    assert PassRate("m", k, False, Threshold(1.0)).of(n, c) == pytest.approx(human_eval(n, c, k), rel=1e-11, abs=1e-15)


@pytest.mark.skipif(not TAU_BENCH.exists(), reason="the conformance data is not here")
def test_pass_hat_k_of_recorded_runs_is_that_of_tau_bench() -> None:
    """The loop is that of tau-bench's `display_metrics`: over tasks, comb(c, k) / comb(trials, k)."""
    rows = [json.loads(line) for line in TAU_BENCH.read_text().splitlines()]
    passed: dict[int, int] = defaultdict(int)
    scores: dict[int, list[Score]] = defaultdict(list)
    for row in rows:
        passed[row["task_id"]] += 1 if 1 - 1e-6 <= row["reward"] <= 1 + 1e-6 else 0
        scores[row["task_id"]].append(Score(float(row["reward"])))
    trials = len({row["trial"] for row in rows})
    instances = [(f"{task:032x}", each, {}) for task, each in sorted(scores.items())]
    found = summaries([batch_of(instances)], facts_of(*range(1, trials + 1)))
    hats = []
    for k in range(1, trials + 1):
        total = sum(math.comb(c, k) / math.comb(trials, k) for c in passed.values())
        hats.append(found[SliceKey((), f"m/pass^{k}")].mean)
        assert hats[-1] == pytest.approx(total / len(passed), abs=1e-15)
    assert sorted(hats, reverse=True) == hats
    assert hats[0] == pytest.approx(sum(row["reward"] for row in rows) / len(rows))


def test_clusters_of_instances_have_the_error_of_statsmodels() -> None:
    rng = random.Random(0)
    instances, values, groups = [], [], []
    for i in range(300):
        group, trials = rng.randrange(20), [rng.random() < 0.3 + 0.04 * (i % 10) for _ in range(4)]
        instances.append((f"{i:032x}", [Score(float(t)) for t in trials], {"conversation": group}))
        values.append(math.comb(sum(trials), 2) / 6)
        groups.append(group)
    fit = sm.OLS(np.array(values), np.ones(300)).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(groups), "use_correction": False}
    )
    batches = [batch_of(instances[i : i + 37]) for i in range(0, 300, 37)]
    found = summaries(batches, facts_of(2), cluster=["conversation"])[SliceKey((), "m/pass^2")]
    assert found.se == pytest.approx(float(fit.bse[0]) * (20 / 19) ** 0.5, rel=1e-10)
    assert (found.n_clusters, found.ci_method) == (20, "cluster")


@pytest.mark.parametrize("options", [{}, {"cluster": ["group"]}, {"resample": True}])
def test_every_way_to_cut_the_work_gives_the_same_rows(options: dict[str, Any]) -> None:
    rng = random.Random(1)
    kinds = list(SCORES)
    trials = [[rng.choice(kinds) for _ in range(rng.randrange(1, 6))] for _ in range(90)]
    instances = [
        (f"{i // 2:032x}" + ("-1" if i % 2 else ""), [SCORES[k] for k in one], {"group": i % 7, "side": i % 2})
        for i, one in enumerate(trials)
    ]
    tables = []
    for size in (2, 10, 90):  # equal inputs, which are a cluster, stay together
        batches = [batch_of(instances[i : i + size]) for i in range(0, 90, size)]
        rng.shuffle(batches)
        tables.append(summaries(batches, facts_of(1, 3), slices=[["side"]], **options))
    assert tables[0] == tables[1] == tables[2]
    assert len(tables[0]) == 12


def test_an_instance_stands_in_a_slice_with_its_trials_there() -> None:
    """Trials of a recorded run may differ in their columns."""
    scores = [SCORES["pass"], SCORES["miss"], SCORES["pass"], SCORES["pass"]]
    rows = [{"day": day} for day in ("mon", "mon", "tue", "tue")]
    examples = [Example(Instance("0" * 32, row), Invocation(), t) for t, row in enumerate(rows)]
    batch = ScoredBatch(examples, {"m": ScoreColumn.of(scores)})
    found = summaries([batch], facts_of(2), slices=[["day"]])
    means = {key: row.mean for key, row in found.items() if key.metric == "m/pass^2"}
    assert means == {
        SliceKey((), "m/pass^2"): 0.5,
        SliceKey((("day", "mon"),), "m/pass^2"): 0.0,
        SliceKey((("day", "tue"),), "m/pass^2"): 1.0,
    }


def test_the_threshold_says_what_passes() -> None:
    scores = [("0" * 32, [Score(0.7), Score(0.8), Score(math.inf)], {})]
    high = summaries([batch_of(scores)], facts_of(1, threshold=Threshold(0.8)))
    low = summaries([batch_of(scores)], facts_of(1, threshold=Threshold(0.7, at_most=True)))
    assert high[SliceKey((), "m/pass^1")].mean == low[SliceKey((), "m/pass@1")].mean == 0.5
