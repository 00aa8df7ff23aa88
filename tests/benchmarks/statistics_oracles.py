"""How far statistics are from those of other libraries and of published tables; bench_statistics.py prints it."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import statsmodels.api as sm
from interval_coverage import Check
from scipy import optimize, stats

from evalbeam.schemas.config.evaluation import StatisticsConfig
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import ScoreColumn, ScoredBatch, SliceKey, Summary
from evalbeam.transforms.aggregate import summarize
from evalbeam.transforms.batch_rows import cut, sort_instances
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.multiplicity import benjamini_hochberg, holm
from evalbeam.transforms.statistics.paired_intervals import tango
from evalbeam.transforms.statistics.permutation import key_of, sign_flip
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

TAU_BENCH = Path(__file__).parents[2].parent / "shared" / "conformance" / "tau_bench" / "runs.jsonl"
TABLE_1995 = (
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528),
    *(0.7590, 1.0),
)
"""The p-values of Benjamini and Hochberg (1995), section 4."""


def summary(rows: list[Instance], columns: tuple[str, ...] = (), ci: str = "auto") -> Summary:
    """The summary of the column `score` of instances."""
    whole, facts = Accumulator(), MetricFacts("m")
    for _, part in cut(sort_instances(rows), 1):
        column = ScoreColumn([row.row["score"] for row in part])
        batch = ScoredBatch([Example(row, Invocation()) for row in part], {"m": column})
        for _, found in Partials([()], [facts], cluster=columns, resample=ci == "bootstrap").count(batch):
            whole.absorb(found)
    return summarize(SliceKey((), "m"), whole, facts, StatisticsConfig.model_validate({"ci": ci}))


def robust_error(scores: list[float], groups: list[int], whole: bool = False) -> float:
    """The cluster-robust standard error of statsmodels, corrected by G / (G - 1) alone or, if `whole`, as CR1 is."""
    options = {"groups": np.array(groups), "use_correction": whole}
    fit = sm.OLS(np.array(scores), np.ones(len(scores))).fit(cov_type="cluster", cov_kwds=options)
    number = len(set(groups))
    return float(fit.bse[0]) * (1.0 if whole else math.sqrt(number / (number - 1)))


def distance_on_tau_bench() -> float:
    """Distance of the clustered standard error of tau-bench's rewards."""
    runs = [json.loads(line) for line in TAU_BENCH.read_text().splitlines()]
    scores, tasks = [float(run["reward"]) for run in runs], [run["task_id"] for run in runs]
    cells = enumerate(zip(scores, tasks, strict=True))
    found = summary([Instance(f"{i:032x}", {"score": s, "task": t}) for i, (s, t) in cells], ("task",))
    return abs((found.se or 0.0) - robust_error(scores, tasks))


def distance_of_copies() -> float:
    """Distance of the ends of the interval of ten rows copied fifty times from those of ten rows, in widths."""
    rows = [Instance(f"{i:032x}", {"score": float(s)}) for i, s in enumerate(np.random.default_rng(0).normal(0, 1, 10))]
    once, many = summary(rows), summary([row for row in rows for _ in range(50)])
    ends = [(one.ci_low or 0.0, one.ci_high or 0.0) for one in (once, many)]
    return max(abs(a - b) for a, b in zip(*ends, strict=True)) / (ends[0][1] - ends[0][0])


def distance_of_bootstrap(groups: int) -> float:
    """Relative distance of the bootstrap's standard error from CR1, five rows in a cluster."""
    rng = np.random.default_rng(groups)
    scores = np.repeat(rng.normal(0, 1, groups), 5) + rng.normal(0, 1, 5 * groups)
    of = np.repeat(np.arange(groups), 5).tolist()
    cells = enumerate(zip(scores.tolist(), of, strict=True))
    rows = [Instance(f"{i:032x}", {"score": s, "g": str(g)}) for i, (s, g) in cells]
    return abs((summary(rows, ("g",), "bootstrap").se or 0.0) / robust_error(scores.tolist(), of, whole=True) - 1)


def distance_of_tango() -> float:
    """Greatest distance of Tango's ends from the roots of his statistic by Brent's method."""
    z, most = stats.norm.ppf(0.975), 0.0
    for risen, fallen, n in ((12, 2, 50), (1, 9, 30), (7, 7, 40), (0, 5, 20), (43, 11, 200), (3, 1, 1000)):

        def statistic(d: float, b: int = risen, c: int = fallen, n: int = n) -> float:
            half = -b - c + (2 * n - b + c) * d
            share = (math.sqrt(half * half + 8 * n * c * d * (1 - d)) - half) / (4 * n)
            return (b - c - n * d) / math.sqrt(n * (2 * share + d * (1 - d)))

        seen = (risen - fallen) / n
        for end, sign, far in zip(tango(risen, fallen, n, 0.95), (1, -1), (-1 + 1e-9, 1 - 1e-9), strict=True):
            root = optimize.brentq(lambda d, s=sign, f=statistic: f(d) - s * z, far, seen, xtol=1e-15, rtol=1e-14)
            most = max(most, abs(end - root))
    return most


def distance_of_sign_flips() -> float:
    """Greatest distance from scipy's exact permutation test of paired samples, over 40 samples of up to 13 pairs."""
    rng, most = np.random.default_rng(0), 0.0
    for i in range(40):
        gains = rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], 4 + i % 10)
        test = stats.permutation_test(
            (gains,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
        )
        ours = sign_flip({key_of(str(k)): float(gain) for k, gain in enumerate(gains)})
        most = max(most, abs(ours - float(test.pvalue)))
    return most


def rejections_beside(adjust: Callable[[tuple[float, ...]], list[float]], expected: int) -> float:
    """How many more or less than expected of the table of 1995 are rejected at 5 %."""
    return abs(sum(p <= 0.05 for p in adjust(TABLE_1995)) - expected)


def list_distances() -> Iterator[Check]:
    """Lists the checks."""
    yield "Tango's interval, distance from its roots", distance_of_tango, 1e-9
    yield "sign flips, distance from scipy's permutation test", distance_of_sign_flips, 1e-12
    yield "Benjamini and Hochberg 1995, rejections beside 4", lambda: rejections_beside(benjamini_hochberg, 4), 0.0
    yield "Holm on the same table, rejections beside 3", lambda: rejections_beside(holm, 3), 0.0
    yield "ten rows copied 50 times, distance in widths", distance_of_copies, 1e-12
    if TAU_BENCH.exists():
        yield "tau-bench, clustered standard error, distance", distance_on_tau_bench, 1e-12
    for groups in (200, 500, 2000):
        name = f"bootstrap's standard error, {groups} clusters, beside CR1"
        yield name, functools.partial(distance_of_bootstrap, groups), 0.05
