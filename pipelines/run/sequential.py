"""Checks a run that is to stop early before anything is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...schemas.config.evaluation import EvaluationConfig
from ...schemas.errors import ConfigError, name_error
from ...transforms.judge import JudgeUse
from ...transforms.metrics._inputs import ConfiguredMetric
from ...transforms.metrics._judged import is_judged
from ...transforms.metrics.base import Derived, Metric

_KEY = "statistics.sequential"


def check_sequential(
    config: EvaluationConfig, metrics: Sequence[ConfiguredMetric], judges: Mapping[str, JudgeUse]
) -> None:
    """Refuses to follow a metric whose mean no confidence sequence bounds, and where there are no calls to end.

    Raises:
        ConfigError: Answers are recorded or replayed, calls are made in batches, rows are clustered, or the metric does
            not exist, has no range or one without the threshold.
    """
    rule = config.statistics.sequential
    if rule is None:
        return
    if config.agent.type == "recorded" or config.replay is not None:
        found = "the answers are recorded" if config.replay is None else f"the answers are those of {config.replay}"
        raise ConfigError(f"{found}, so there are no calls to end early", where=_KEY, allowed="with an agent")
    if config.statistics.cluster:
        found = f"{_KEY} counts rows as independent of each other"
        raise ConfigError(found, where="statistics.cluster", allowed=f"none with {_KEY}")
    known = {use.name: use.metric for use in metrics}
    if rule.metric not in known:
        raise name_error(f"no metric named {rule.metric!r}", rule.metric, known, f"{_KEY}.metric")
    metric = known[rule.metric]
    asked = judges if is_judged(metric) else {}
    batched = [f"judges.{name}" for name, use in asked.items() if use.mode != "live"]
    if config.agent.mode != "live" or batched:
        where = f"{batched[0] if config.agent.mode == 'live' else 'agent'}.mode"
        raise ConfigError(f"calls of {_KEY} cannot wait for batches", where=where, allowed="live")
    for i, one in enumerate(config.criteria):
        followed = one.metric == rule.metric and one.statistic == "mean" and not one.slice
        if followed and one.confidence not in (None, rule.confidence):
            found = f"found {one.confidence:g}, but {_KEY} follows the metric with {rule.confidence:g}"
            raise ConfigError(found, where=f"criteria.{i}.confidence", allowed=f"{rule.confidence:g}")
    low, high = _range(metric, rule.metric, known)
    if not low <= rule.threshold <= high:
        found = f"found {rule.threshold:g}, which is beyond every mean of {rule.metric}"
        raise ConfigError(found, where=f"{_KEY}.threshold", allowed=f"{low:g} to {high:g}")


def _range(metric: Metric, name: str, known: Mapping[str, Metric]) -> tuple[float, float]:
    """The lowest and highest score of a metric that can be followed."""
    if _can_be_followed(metric):
        return (0.0, 1.0) if metric.binary else metric.range  # type: ignore[return-value]  (checked just now)
    why = "has no range"
    if "pairwise_choice" in metric.outputs:
        why = "has verdicts instead of scores"
    elif isinstance(metric, Derived):
        why = "is derived from other metrics, after all of them"
    others = [n for n, one in known.items() if _can_be_followed(one)]
    raise ConfigError(f"{name} {why}", where=f"{_KEY}.metric", allowed=", ".join(others) or "a metric with a range")


def _can_be_followed(metric: Metric) -> bool:
    ends = (0.0, 1.0) if metric.binary else metric.range
    scored = "pairwise_choice" not in metric.outputs and not isinstance(metric, Derived)
    return scored and ends is not None and ends[0] < ends[1]
