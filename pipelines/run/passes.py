"""What a configuration says of pass^k and pass@k: the rows of the summary, and what contradicts them."""

from __future__ import annotations

import math

from ...schemas.config.evaluation import EvaluationConfig, MetricConfig
from ...schemas.config.explain import show_value
from ...schemas.errors import ConfigError
from ...schemas.names import PERFORMANCE
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics.base import Metric
from ...transforms.statistics.criteria import Threshold
from ...transforms.statistics.pass_rates import PassRate
from ...transforms.statistics.slices import MetricFacts


def check_passes(config: MetricConfig, metric: Metric, where: str) -> None:
    """Refuses `pass_k` of a metric whose scores do not say whether a trial passed.

    Raises:
        ConfigError: There is no threshold, or no score that is the better one.
    """
    if not config.pass_k:
        return
    if "pairwise_choice" in metric.outputs:
        raise ConfigError("its verdict is no score", where=f"{where}.pass_k", allowed="a metric with scores")
    if metric.better == "nearer":
        found = "the best score lies within its range, so that no threshold says what is better"
        raise ConfigError(found, where=f"{where}.pass_k", allowed="a metric whose best score is an end of its range")
    bound, key = config.pass_threshold, f"{where}.threshold"
    if bound is None and not metric.binary:
        found = f"missing, but the scores of {config.name or metric.metric_name} need not be 0 or 1"
        raise ConfigError(found, where=key, allowed="the score with which a trial passes, beside pass_k")
    if bound is None:
        return
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
        raise ConfigError(f"found {show_value(bound)}", where=key, allowed="a finite number")
    if metric.range and not metric.range[0] <= bound <= metric.range[1]:
        low, high = metric.range
        raise ConfigError(f"found {bound:g}, which is beyond every score", where=key, allowed=f"{low:g} to {high:g}")


def check_trials(config: EvaluationConfig, recorded: bool) -> None:
    """Refuses a k above the number of trials, and `pass_k` of a metric that is always there.

    Args:
        config: The configuration.
        recorded: Whether the answers are in the rows, which may hold any number of trials.

    Raises:
        ConfigError: No instance can have so many trials, or the metric cannot have the key.
    """
    for i, one in enumerate(config.metrics):
        where = f"metrics.{i}.pass_k"
        if one.pass_k and one.metric in PERFORMANCE:
            raise ConfigError(f"found pass_k of {one.metric}", where=where, allowed="a metric of quality")
        if one.pass_k and not recorded and one.pass_k[-1] > config.trials:
            found = f"found {one.pass_k[-1]}, but each row is answered {config.trials} times (trials)"
            raise ConfigError(found, where=where, allowed=f"1 to {config.trials}")


def describe_passes(use: ConfiguredMetric) -> tuple[MetricFacts, ...]:
    """The rows pass^k and pass@k of a metric, as metrics of the summary; none if the configuration asks for none."""
    lower = use.metric.better == "lower"
    bound = use.pass_threshold
    threshold = Threshold(float(bound) if bound is not None else 0.0 if lower else 1.0, lower)
    rates = (PassRate(use.name, k, every, threshold) for k in use.pass_k for every in (True, False))
    return tuple(MetricFacts(r.name, worst=0.0, best=1.0, range=(0.0, 1.0), passes=r) for r in rates)
