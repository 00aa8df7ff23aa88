"""What the names of a comparison stand for: scores of a metric, one of their quantiles, or how many trials pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..schemas.json import Json
from ..schemas.names import PERFORMANCE
from ..schemas.values import mean
from ..transforms.statistics.criteria import Threshold
from ..transforms.statistics.order_statistics import QUANTILES
from ..transforms.statistics.paired import Scale
from ..transforms.statistics.paired_quantiles import Fraction
from ..transforms.statistics.pass_rates import PassRate

ENDINGS = ", ".join(f"/{name}" for name in QUANTILES)
"""What follows the name of a metric of which a quantile is compared."""

Row = Mapping[str, Json]
Measure = Callable[[Sequence[Row]], Any]
"""Computes what is compared from the rows of an instance's trials: a score, a tuple of scores, or `None`."""


@dataclass(frozen=True)
class Compared:
    """What is compared.

    Attributes:
        metric: The metric whose scores are read.
        quantile: The quantile of its scores; `None`: their mean.
        passes: The share of instances of which trials pass, instead of scores.
    """

    metric: str
    quantile: Fraction | None = None
    passes: PassRate | None = None

    def measure(self, best: float | None) -> Measure:
        """Returns how an instance is measured.

        Args:
            best: The best score if it lies within the range, else `None`; distances from it replace the scores.
        """
        place = column_of(self.metric)
        if self.quantile is not None:
            return lambda trials: tuple(_scores(trials, place, best)) or None
        rate = self.passes
        if rate is not None:
            return lambda trials: _pass(trials, place, rate)
        return lambda trials: _mean(_scores(trials, place, best))


def find_compared(name: str, facts: Mapping[str, Mapping[str, Any]]) -> Compared | None:
    """Returns what a name stands for; `None` if the run has nothing of that name.

    Args:
        name: A metric, `<metric>/p95` (or another one of `QUANTILES`), or a row pass^k or pass@k of the summary.
        facts: What the run's manifest says of its metrics, by name.
    """
    if name in facts:
        passes = facts[name].get("passes")
        if passes is None:
            return Compared(name)
        rate = PassRate(**{**passes, "threshold": Threshold(**passes["threshold"])})
        return Compared(rate.metric, passes=rate)
    metric = metric_of_quantile(name, facts)
    return None if metric is None or "passes" in facts[metric] else Compared(metric, QUANTILES[name[len(metric) + 1 :]])


def metric_of_quantile(name: str, known: Collection[str]) -> str | None:
    """Returns the metric of `<metric>/p95`, if it is one of the known ones."""
    metric, _, end = name.rpartition("/")
    return metric if end in QUANTILES and metric in known else None


def column_of(metric: str) -> str:
    """Returns the column of a metric's scores in the instances table."""
    return metric if metric in PERFORMANCE else f"{metric}/score"


def scale_of(one: Compared, facts: Mapping[str, Any], threshold: Threshold | None) -> Scale:
    """Returns what the scores mean; if the best one lies within, the distances from it.

    Args:
        one: What is compared.
        facts: What the manifest says of its metric or, for trials that pass, of that row of the summary.
        threshold: Threshold of its scores, by a criterion.
    """
    worst, best, better = (facts[key] for key in ("worst", "best", "better"))
    if better == "nearer":
        most = None if worst is None or best is None else abs(worst - best)
        return Scale(True, most, 0.0)
    return Scale(better == "lower", worst, best, None if one.quantile else threshold)


def _scores(trials: Sequence[Row], place: str, best: float | None) -> list[float]:
    """Returns the finite scores of trials, or their distances from the best one."""
    known = (row[place] for row in trials)
    finite = [float(score) for score in known if score is not None and math.isfinite(score)]
    return finite if best is None else [abs(score - best) for score in finite]


def _mean(scores: Sequence[float]) -> float | None:
    if len(scores) == 1:
        return scores[0]
    return mean(scores) if scores else None


def _pass(trials: Sequence[Row], place: str, rate: PassRate) -> float | None:
    """Rates an instance. A trial that the agent failed did not pass; one without a score otherwise does not count."""
    counted = [row for row in trials if row["status"] == "failed" or _scores([row], place, None)]
    passed = sum(rate.threshold.met(score) for score in _scores(trials, place, None))
    return rate.of(len(counted), passed)
