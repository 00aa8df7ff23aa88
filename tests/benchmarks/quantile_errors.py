"""How often a comparison of quantiles is wrong: agents that did not change, and true losses of exactly the margin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from interval_coverage import Check

from evalbeam.transforms.statistics.gains import judge
from evalbeam.transforms.statistics.order_statistics import QUANTILES
from evalbeam.transforms.statistics.paired import Scale
from evalbeam.transforms.statistics.paired_quantiles import QuantilePairs

Make = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""Draws the latencies of n rows in both runs."""


def apart(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Latencies that have nothing to do with the row."""
    return rng.lognormal(0, 1, n), rng.lognormal(0, 1, n)


def alike(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Latencies that depend on the row, and differ by some 20 % from run to run."""
    rows = rng.lognormal(0, 0.5, n)
    return rows * rng.lognormal(0, 0.2, n), rows * rng.lognormal(0, 0.2, n)


def wider(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose median did not change, but that vary four times as much."""
    return rng.normal(0, 1, n), rng.normal(0, 4, n)


def whole(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole seconds, of which many are equal."""
    return np.ceil(rng.lognormal(1, 1, n)), np.ceil(rng.lognormal(1, 1, n))


def slower(by: float) -> Make:
    """Latencies that depend on the row; the second run is slower by a constant."""

    def make(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        before, after = alike(rng, n)
        return before, after + by

    return make


def timed_out(share: float, noise: float) -> Make:
    """Latencies of which a share takes 30 s in the second run."""

    def make(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        before = rng.lognormal(0, 0.5, n)
        after = before * rng.lognormal(0, noise, n)
        return before, np.where(rng.random(n) < share, 30.0, after)

    return make


def compare(make: Make, n: int, name: str, margin: float, rng: np.random.Generator) -> str:
    """The verdict on a quantile of n rows."""
    pairs = QuantilePairs(Scale(lower_is_better=True), share=QUANTILES[name])
    for old, new in zip(*(side.tolist() for side in make(rng, n)), strict=True):
        pairs.add(str(rng.integers(1 << 62)), (old,), (new,))
    (found,) = judge({((), "m"): pairs}, ["m"], {"m": margin}, 0.95)
    return found.verdict


def false_verdicts(make: Make, n: int, name: str, simulations: int) -> float:
    """Share of verdicts other than INCONCLUSIVE."""
    rng = np.random.default_rng(n)
    return sum(compare(make, n, name, 0.0, rng) != "INCONCLUSIVE" for _ in range(simulations)) / simulations


def wrongly_passed(make: Make, n: int, name: str, simulations: int) -> float:
    """Share of NO_WORSE or BETTER if the true loss, that of two million rows, is the margin."""
    p, q = QUANTILES[name]
    old, new = (float(np.quantile(side, p / q)) for side in make(np.random.default_rng(0), 2_000_000))
    rng = np.random.default_rng(n)
    found = [compare(make, n, name, new - old, rng) for _ in range(simulations)]
    return sum(verdict in ("NO_WORSE", "BETTER") for verdict in found) / simulations


def list_quantile_errors(simulations: int) -> Iterator[Check]:
    """Lists the checks; each figure is at most its bound."""
    for words, make in (("apart", apart), ("alike", alike), ("whole seconds", whole), ("wider", wider)):
        for name in ("median", "p90", "p95") if make is not wider else ("median",):
            for n in (10, 20, 50, 200):
                call = partial(false_verdicts, make, n, name, simulations)
                yield f"same {name}, {words}, n = {n}", call, 0.055
    for name in ("median", "p95"):
        for n in (50, 100, 200):
            for rows in (0, 1, 2, 4, 8):
                for noise in (0.02, 0.2):
                    make = timed_out(rows / n, noise) if rows else slower(noise)
                    words = f"{rows} time out, noise {noise}" if rows else f"all slower by {noise}"
                    call = partial(wrongly_passed, make, n, name, simulations)
                    yield f"true loss of {name} is the margin, n = {n}, {words}", call, 0.05
