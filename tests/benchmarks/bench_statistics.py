"""How often verdicts of a comparison are wrong, and what a comparison costs.

    python tests/benchmarks/bench_statistics.py [SHARE] [WORDS]

SHARE scales the number of simulations (1: as many as the figures below are stated for, 0.1: a quick look). Of WORDS,
only lines with them are computed. Each line names the bound that must hold; the exit code is 1 if one does not.

- Distances from scipy, statsmodels and published tables: statistics_oracles.py.
- Coverage of the intervals of a summary: interval_coverage.py.
- Wrong verdicts on quantiles: quantile_errors.py.

- Same agent: k of 500 rows changed by chance. Share of verdicts other than INCONCLUSIVE.
- Family: 20 metrics × 11 slices of 500 rows, nothing changed but by chance. Share of comparisons with any such verdict.
- Margin: the true loss is exactly the margin. Share of NO_WORSE or BETTER.
- Labels: means of a judge that is too kind, corrected by labels of people. Share of raw intervals that hold the truth,
  and the distance of the share of corrected ones from 95 %.
- Bootstrap: time of 1,000 replicates in one pass over ten slices, as a share of 20 passes without.
- Cost: microseconds for each instance of six metrics in a comparison.
- All statistics: what they add to the processor time and the memory of a run of 1,000,000 rows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from interval_coverage import Check, list_coverages
from quantile_errors import list_quantile_errors
from statistics_cost import compare_runs
from statistics_oracles import list_distances

from evalbeam.schemas.comparison import Difference
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import ScoreColumn, ScoredBatch
from evalbeam.transforms.statistics.accumulators import Accumulator
from evalbeam.transforms.statistics.clusters import Clusters, counted
from evalbeam.transforms.statistics.gains import Cell, judge
from evalbeam.transforms.statistics.labelled import Label, correct, observe
from evalbeam.transforms.statistics.paired import Pairs, Scale
from evalbeam.transforms.statistics.slices import MetricFacts, Partials

UNIT, STARS = Scale(False, 0.0, 1.0), Scale(False, 1.0, 5.0)
Make = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def paired(before: np.ndarray, after: np.ndarray, scale: Scale, clusters: int | None = None) -> Pairs:
    """The pairs of two columns of scores; `clusters` puts consecutive rows together."""
    pairs = Pairs(scale)
    for i, (old, new) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
        pairs.add(str(i // clusters if clusters else i), old, new)
    return pairs


def judged(pairs: Pairs, margin: float = 0.0) -> Difference:
    """What one metric shows by itself."""
    (found,) = judge({((), "m"): pairs}, ["m"], {"m": margin}, 0.95)
    return found


def same_agent(k: int, sizes: Iterable[float]) -> Make:
    """500 rows, of which k changed by one of the sizes, up or down."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        before = np.full(500, 3.0)
        after = before.copy()
        after[rng.choice(500, k, replace=False)] += rng.choice(list(sizes), k) * rng.choice([-1.0, 1.0], k)
        return before, after

    return make


def false_verdicts(
    make: Make, scale: Scale, simulations: int, margin: float = 0.0, clusters: int | None = None
) -> float:
    """Share of simulations with a verdict other than INCONCLUSIVE."""
    rng = np.random.default_rng(simulations)
    found = [judged(paired(*make(rng), scale, clusters), margin).verdict for _ in range(simulations)]
    return sum(verdict != "INCONCLUSIVE" for verdict in found) / len(found)


def wrongly_passed(make: Make, scale: Scale, margin: float, simulations: int) -> float:
    """Share of simulations in which a loss as large as the margin passes."""
    rng = np.random.default_rng(simulations)
    found = [judged(paired(*make(rng), scale), margin).verdict for _ in range(simulations)]
    return sum(verdict in ("NO_WORSE", "BETTER") for verdict in found) / len(found)


def shares(n: int, before: float, fixed: float, broken: float) -> Make:
    """0/1 scores: shares of rows that pass before, and that are fixed and broken (of all rows)."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        drawn = rng.random(n)
        old = (drawn < before).astype(float)
        new = np.where(drawn < broken, 0.0, np.where(drawn > 1 - fixed, 1.0, old))
        return old, new

    return make


def ratings(n: int, falls: dict[int, float]) -> Make:
    """Ratings from 1 to 5 that fall (or rise, if negative) by some points with some probability."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        steps = rng.choice([0, *falls], n, p=[1 - sum(falls.values()), *falls.values()])
        before = np.where(steps >= 0, np.maximum(1 + steps, 4), 1)
        return before.astype(float), (before - steps).astype(float)

    return make


def fractions(n: int, loss: float, spread: float) -> Make:
    """Scores between 0 and 1 that all change a little, and are lower by the loss."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        before = rng.uniform(0.3, 0.7, n)
        return before, before - loss + rng.uniform(-spread, spread, n)

    return make


def family(rng: np.random.Generator, trials: int, metrics: int = 20, slices: int = 10, n: int = 500) -> bool:
    """Whether any verdict is false in a family of 0/1 metrics in the whole dataset and in ten slices."""
    cells: dict[Cell, Pairs] = {}
    place = rng.integers(slices, size=n)
    for m in range(metrics):
        level = rng.beta(6, 2, n)
        before, after = (np.mean(rng.random((trials, n)) < level, axis=0) for _ in range(2))
        cells[(), f"m{m}"] = paired(before, after, UNIT)
        for s in range(slices):
            inside = place == s
            cells[(("s", str(s)),), f"m{m}"] = paired(before[inside], after[inside], UNIT)
    names = [f"m{m}" for m in range(metrics)]
    found = judge(cells, names, dict.fromkeys(names, 0.0), 0.95)
    return any(one.verdict != "INCONCLUSIVE" for one in found)


def family_error(trials: int, simulations: int) -> float:
    """Share of families with a false verdict."""
    rng = np.random.default_rng(trials)
    return sum(family(rng, trials) for _ in range(simulations)) / simulations


Labelling = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Draws the scores of 2,000 rows, what people say of each, and the probability with which each is labelled."""


def kind_judge(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """0/1 scores: 70 % are good, the judge passes 30 % of the bad ones and fails 5 % of the good ones."""
    truth = (rng.random(2000) < 0.7).astype(float)
    judge = np.where(truth == 1, rng.random(2000) > 0.05, rng.random(2000) < 0.3).astype(float)
    return judge, truth, np.full(2000, 0.1)


def kind_judge_by_score(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, with half of the labels on rows that the judge fails."""
    judge, truth, _ = kind_judge(rng)
    return judge, truth, np.where(judge == 0, 100 / (judge == 0).sum(), 100 / (judge == 1).sum())


def kind_ratings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratings from 1 to 5 with the mean 3, of which the judge raises 40 % by one."""
    truth = rng.integers(1, 6, 2000).astype(float)
    return np.minimum(truth + (rng.random(2000) < 0.4), 5), truth, np.full(2000, 0.1)


def kind_trials(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """500 rows of four trials that resemble each other; the first trial of four in ten rows is labelled."""
    truth = (rng.random(2000) < np.repeat(rng.beta(1.4, 0.6, 500), 4)).astype(float)
    judge = np.where(truth == 1, rng.random(2000) > 0.05, rng.random(2000) < 0.3).astype(float)
    return judge, truth, np.where(np.arange(2000) % 4 == 0, 0.4, 0.0)


LABELLINGS: tuple[tuple[str, Labelling, float, tuple[float, float], int], ...] = (
    ("0/1", kind_judge, 0.7, (0.0, 1.0), 1),
    ("0/1, labels by score", kind_judge_by_score, 0.7, (0.0, 1.0), 1),
    ("ratings", kind_ratings, 3.0, (1.0, 5.0), 1),
    ("0/1, four trials, one labelled", kind_trials, 0.7, (0.0, 1.0), 4),
)
"""(name, how rows are drawn, true mean, range, trials of a row)."""


def holding(draw: Labelling, truth: float, ends: tuple[float, float], trials: int, simulations: int) -> list[float]:
    """Shares of (raw, corrected) intervals that hold the true mean."""
    rng, held = np.random.default_rng(simulations), [0, 0]
    for _ in range(simulations):
        judge, human, chance = draw(rng)
        people = rng.random(len(judge)) < chance
        weights = np.where(people, 1 / np.where(people, chance, 1), 0).tolist()
        labels = [Label(y, w) if w else None for y, w in zip(human.tolist(), weights, strict=True)]
        scores, size = judge.tolist(), len(judge)
        groups = Clusters.of(scores[i : i + trials] for i in range(0, size, trials)) if trials > 1 else None
        rows = Accumulator(size, size, counts=counted(scores), clusters=groups)
        values = rows.distribution()
        places = [range(i, i + trials) for i in range(0, size, trials)]
        found = correct(observe(scores, labels, places), values, 0.95, ends)
        error, mean = values.clustered_error() or 0.0, values.mean() or 0.0
        held[0] += abs(mean - truth) <= 1.96 * error
        held[1] += found.low is not None and found.high is not None and found.low <= truth <= found.high
    return [count / simulations for count in held]


def bootstrap_share(n: int) -> float:
    """Processor time of n scores in ten slices with 1,000 replicates, over that of 20 times the same without."""
    scores, batches = np.random.default_rng(0).random(n).tolist(), []
    for start in range(0, n, 1024):
        places = range(start, min(start + 1024, n))
        rows = [Example(Instance(f"{i:032x}", {"part": str(i % 10)}), Invocation()) for i in places]
        batches.append(ScoredBatch(rows, {"m": ScoreColumn(scores[start : start + 1024])}))
    seconds = []
    for resample in (False, True):
        start, whole = time.process_time(), {}
        for batch in batches:
            for key, part in Partials([(), ("part",)], [MetricFacts("m")], resample=resample).count(batch):
                whole.setdefault(key, Accumulator()).absorb(part)
        seconds.append(time.process_time() - start)
    return seconds[1] / (20 * seconds[0])


def cost(n: int) -> float:
    """Microseconds for each instance of six metrics of which a tenth changed."""
    rng = np.random.default_rng(0)
    before = rng.random((n, 6)).round(1)
    after = np.where(rng.random((n, 6)) < 0.1, rng.random((n, 6)).round(1), before)
    rows = list(zip(map(str, range(n)), before.tolist(), after.tolist(), strict=True))
    start = time.process_time()
    cells: dict[Cell, Pairs] = {((), f"m{m}"): Pairs(UNIT) for m in range(6)}
    columns = list(cells.values())
    for unit, old, new in rows:
        for pairs, a, b in zip(columns, old, new, strict=True):
            pairs.add(unit, a, b)
    names = [name for _, name in cells]
    judge(cells, names, dict.fromkeys(names, 0.0), 0.95)
    return (time.process_time() - start) / n * 1e6


MARGINS: tuple[tuple[str, Make, Scale, float], ...] = (
    ("0/1, n = 100, margin 0.05", shares(100, 0.9, 0.0, 0.05), UNIT, 0.05),
    ("0/1, n = 500, margin 0.01", shares(500, 0.9, 0.0, 0.01), UNIT, 0.01),
    ("0/1, n = 500, margin 0.02, 5 % fixed", shares(500, 0.9, 0.05, 0.07), UNIT, 0.02),
    ("ratings, n = 500, margin 0.02, by one", ratings(500, {1: 0.02}), STARS, 0.02),
    ("ratings, n = 500, margin 0.04, by four", ratings(500, {4: 0.01}), STARS, 0.04),
    ("ratings, n = 200, margin 0.1, up and down", ratings(200, {1: 0.2, -1: 0.1}), STARS, 0.1),
    ("fractions, n = 30, margin 0.02", fractions(30, 0.02, 0.2), UNIT, 0.02),
    ("fractions, n = 500, margin 0.02", fractions(500, 0.02, 0.3), UNIT, 0.02),
)
"""(name, runs with a true loss of exactly the margin, range, margin)."""


def list_errors(part: float) -> Iterator[Check]:
    """Lists the simulations of errors; each figure is at most its bound."""
    few, many = max(int(1000 * part), 1), max(int(2000 * part), 1)
    for k in (3, 4, 6, 10, 20, 21, 30, 50):
        for words, sizes in (("±0.5", (0.5,)), ("±1 or ±2", (1.0, 2.0))):
            make = same_agent(k, sizes)
            yield f"same agent, {k} of 500 by {words}", lambda m=make: false_verdicts(m, STARS, many), 0.055
    for trials in (1, 2):
        yield f"family of 220, trials {trials}", lambda t=trials: family_error(t, few), 0.05
    for name, make, scale, margin in MARGINS:
        call = lambda m=make, s=scale, d=margin: wrongly_passed(m, s, d, many)  # noqa: E731
        yield f"true loss is the margin: {name}", call, 0.05
    for name, *given in LABELLINGS:
        for i, (words, bound) in enumerate((("raw interval holds", 0.2), ("corrected interval, off 95 %", 0.02))):
            call = lambda g=given, i=i: abs(holding(*g, max(int(500 * part), 1))[i] - 0.95 * i)  # noqa: E731
            yield f"{words}: {name}", call, bound
    yield "bootstrap, share of 20 passes", lambda: bootstrap_share(max(int(1_000_000 * part), 10_000)), 1.0
    yield "cost for each instance of six metrics, µs", lambda: cost(50_000), 100.0
    rows = max(int(1_000_000 * part), 20_000)
    yield "all statistics, share of a run's processor time", lambda: compare_runs(rows)[0], 0.2
    yield "all statistics, MB", lambda: compare_runs(rows)[1], 200.0


def main() -> int:
    """Prints every figure beside its bound."""
    part = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    words = sys.argv[2] if len(sys.argv) > 2 else ""
    quantiles = list_quantile_errors(max(int(2000 * part), 1))
    checks = [(*one, False) for one in (*list_distances(), *list_errors(part), *quantiles)]
    checks += [(*one, True) for one in list_coverages(max(int(2000 * part), 1))]
    missed = 0
    for name, compute, bound, least in checks:
        if words not in name:
            continue
        found = compute()
        wrong = found < bound if least else found > bound
        missed += wrong
        bounds = f"at {'least' if least else 'most'} {bound:g}{'  MISSED' if wrong else ''}"
        print(f"{name:62} {found:10.4g}  {bounds}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
