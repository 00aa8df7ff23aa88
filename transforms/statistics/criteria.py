"""Judges whether the statistics of a run are within the bounds of its criteria."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

import numpy as np

from ...schemas.config.evaluation import CriterionConfig
from ...schemas.errors import ConfigError, Mistakes, name_error
from ...schemas.result import OF_LABELS, Summary, Verdict
from ...schemas.verdict_words import TOO_SMALL, say_interval
from .order_statistics import QUANTILES

_NOT_BOUNDED = {"slice", "metric", "ci_method", "threshold", "verdict", "judges", "validity", "intervals"}
_WITHIN = {"mean", "min", "max", *QUANTILES, "mode", "worst_case_mean", "best_case_mean"}
_WITHIN |= {"corrected_mean", "corrected_ci_low", "corrected_ci_high"}
_WITHIN |= {f"{name}_ci_{end}" for name in QUANTILES for end in ("low", "high")}
_SHARES = {"coverage", "pass_rate"}
_OF_LABELS = {name.rstrip("_") for name in OF_LABELS}
STATISTICS: tuple[str, ...] = tuple(f.name.rstrip("_") for f in fields(Summary) if f.name not in _NOT_BOUNDED)
"""Columns of the summary table that a criterion may bound."""
_ENDS = {"mean": ("ci_low", "ci_high")}
_ENDS |= {name: (f"{name}_ci_low", f"{name}_ci_high") for name in QUANTILES}
_ENDS |= {"corrected_mean": ("corrected_ci_low", "corrected_ci_high")}
"""The ends of the interval of each statistic that has one."""
Interval: TypeAlias = tuple[float | None, float | None]
Floats: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Threshold:
    """The bound that a score must meet to pass: `value` or more, or `value` or less if `at_most`."""

    value: float
    at_most: bool = False

    def met(self, score: float) -> bool:
        """Returns whether a score passes."""
        return score <= self.value if self.at_most else score >= self.value

    def met_by(self, scores: Floats) -> Mask:
        """Returns which scores pass; NaN does not."""
        return scores <= self.value if self.at_most else scores >= self.value


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one criterion.

    Attributes:
        metric, statistic, slice, min, max: The criterion as configured.
        observed: The statistic's value; `None` if there is none.
        verdict: "NOT_EVALUATED" iff there is no value to judge, or the run was stopped before it had them all.
        reason: The comparison in words, or the reason why there is none.
        decided_by: Whether the statistic itself decided, or its interval.
        confidence: Level of the interval: the criterion's or else that of the summary.
        low, high: The interval of the statistic; `None` without one.
        shown: Whether the interval bears out a verdict of the statistic; `None` without an interval, and if the
            statistic is the bound itself, which no number of rows shows.
    """

    metric: str
    statistic: str
    slice: dict[str, str | None]
    min: float | None
    max: float | None
    observed: float | None
    verdict: Verdict
    reason: str
    decided_by: Literal["statistic", "interval"] = "statistic"
    confidence: float | None = None
    low: float | None = None
    high: float | None = None
    shown: bool | None = None


def level_key(confidence: float) -> str:
    """Returns the key of a confidence in `Summary.intervals`."""
    return repr(confidence)


def intervals_of(summary: Summary) -> dict[str, Interval]:
    """Returns the interval of each statistic that has one."""
    return {name: (getattr(summary, low), getattr(summary, high)) for name, (low, high) in _ENDS.items()}


def levels_of(criteria: Iterable[CriterionConfig]) -> dict[str, tuple[float, ...]]:
    """Returns the confidences of the criteria by metric."""
    found: dict[str, set[float]] = {}
    for one in criteria:
        if one.confidence is not None:
            found.setdefault(one.metric, set()).add(one.confidence)
    return {metric: tuple(sorted(levels)) for metric, levels in found.items()}


def check(
    criteria: Sequence[CriterionConfig],
    metrics: Mapping[str, tuple[float, float] | None],
    slices: Sequence[Sequence[str]],
    labelled: Collection[str] = (),
) -> None:
    """Checks that the criteria refer to rows and columns that the summary table will have.

    Args:
        criteria: The criteria in the order of the configuration.
        metrics: The summary table's metrics, with the lowest and the highest value of each; `None` without a range.
        slices: Column lists of the configured slices.
        labelled: Metrics with people's labels.

    Raises:
        ConfigError: A metric, statistic or slice does not exist, or the bounds exclude every value, or none.
    """
    found = Mistakes()
    for i, one in enumerate(criteria):
        with found.collect():
            _check_one(one, metrics, slices, labelled, f"criteria.{i}")
    found.raise_all()


def _check_one(
    one: CriterionConfig,
    metrics: Mapping[str, tuple[float, float] | None],
    slices: Sequence[Sequence[str]],
    labelled: Collection[str],
    where: str,
) -> None:
    if one.metric not in metrics:
        raise _unknown("metric", one.metric, metrics, f"{where}.metric")
    if one.statistic not in STATISTICS:
        raise _unknown("statistic", one.statistic, STATISTICS, f"{where}.statistic")
    if one.statistic in _OF_LABELS and one.metric not in labelled:
        found = f"{one.statistic} of {one.metric}, of which there are no labels"
        raise ConfigError(found, where=f"{where}.statistic", allowed="a metric that labels.columns names")
    if one.slice and not any(set(one.slice) == set(columns) for columns in slices):
        found = "no slice by the columns " + ", ".join(one.slice)
        choices = "; ".join(", ".join(columns) for columns in slices) or "no slices are configured"
        raise ConfigError(found, where=f"{where}.slice", allowed=choices)
    if one.min is not None and one.max is not None and one.min > one.max:
        raise ConfigError(f"min {one.min:g} is above max {one.max:g}", where=where, allowed="min <= max")
    if one.confidence is not None and one.statistic not in _ENDS:
        found = f"{one.statistic} has no interval that could decide"
        raise ConfigError(found, where=f"{where}.confidence", allowed=f"with {', '.join(_ENDS)}")
    _check_bounds(one, metrics[one.metric], where)


def _check_bounds(one: CriterionConfig, ends: tuple[float, float] | None, where: str) -> None:
    """Refuses a bound that decides nothing, since no value is beyond it or all are: 90 instead of 0.9."""
    ends = (0.0, 1.0) if one.statistic in _SHARES else ends if one.statistic in _WITHIN else None
    if ends is None:
        return
    low, high = ends
    for key, bound in (("min", one.min), ("max", one.max)):
        if bound is not None and (bound > high or (key == "max" and bound < low)):
            found = f"found {bound:g}, which is beyond every {one.statistic} of {one.metric}"
            raise ConfigError(found, where=f"{where}.{key}", allowed=f"{low:g} to {high:g}")
        if one.confidence is not None and bound == {"min": high, "max": low}[key] and "mean" in one.statistic:
            found = f"found {bound:g}, which no number of rows shows with a confidence"
            raise ConfigError(found, where=f"{where}.{key}", allowed=f"between {low:g} and {high:g}")


def threshold(criteria: Iterable[CriterionConfig], metric: str, ends: tuple[float, float] | None) -> Threshold | None:
    """Returns the threshold of a single score, from the metric's criterion over the whole dataset.

    That is the criterion on `mean`, else the one on the `min` or `max` of the scores. A metric that is best at its
    low end uses the upper bound, any other metric the lower one; without a range, the lower bound if there is one.

    Args:
        criteria: All criteria of the run.
        metric: Output name of the metric.
        ends: Its (worst, best) score; `None` without a range.
    """
    for statistic in ("mean", "min", "max"):
        for one in criteria:
            if one.metric != metric or one.statistic != statistic or one.slice:
                continue
            at_most = ends[1] < ends[0] if ends else one.min is None
            bound = one.max if at_most else one.min
            if bound is not None:
                return Threshold(bound, at_most)
    return None


def judge(
    summaries: Iterable[Summary],
    criteria: Sequence[CriterionConfig],
    stopped: bool = False,
    confidence: float = 0.95,
) -> tuple[list[Judgement], Verdict]:
    """Judges every criterion, in their order; bounds are inclusive.

    Args:
        summaries: Rows of the summary table.
        criteria: The criteria.
        stopped: Whether the run was stopped: reasons then show the values so far, but decide nothing, since the rows
            that are left may change them.
        confidence: Level of the intervals of the summary table.

    Returns:
        The judgement of each, and the verdict of all: FAILED if any failed, else NOT_EVALUATED if any could not be
        evaluated, else INCONCLUSIVE if any is, else PASSED (also without criteria).
    """
    rows = {(frozenset(s.slice), s.metric): s for s in summaries}
    judgements = []
    for one in criteria:
        row = rows.get((frozenset(one.slice.items()), one.metric))
        observed = _value(row, one.statistic) if row else None
        found = _find_interval(one, row) if row and observed is not None else (None, None)
        shown, level = None, one.confidence or confidence
        if one.confidence is None:
            verdict, reason = _compare(one, row, observed)
            shown = _is_shown(one, observed, found, verdict)
            reason += f"; {say_interval(*found, level)}: {TOO_SMALL}" if shown is False and not stopped else ""
        else:
            verdict, reason = _decide(one, row, observed, found)
        if stopped and verdict != "NOT_EVALUATED":
            verdict, reason = "NOT_EVALUATED", f"{reason}, but the run was stopped"
        bounds = (one.metric, one.statistic, dict(one.slice), one.min, one.max)
        by: Literal["statistic", "interval"] = "statistic" if one.confidence is None else "interval"
        judgements.append(Judgement(*bounds, observed, verdict, reason, by, level, *found, shown))
    return judgements, _worst({j.verdict for j in judgements}) or "PASSED"


def _value(row: Summary, statistic: str) -> float | None:
    return getattr(row, f"{statistic}_" if statistic == "lambda" else statistic)


def add_verdicts(summaries: Iterable[Summary], judgements: Sequence[Judgement]) -> list[Summary]:
    """The summary rows with the verdict of the criteria on them; `None` where there are none."""
    verdicts: dict[tuple[frozenset, str], set[Verdict]] = {}
    for j in judgements:
        verdicts.setdefault((frozenset(j.slice.items()), j.metric), set()).add(j.verdict)
    return [replace(s, verdict=_worst(verdicts.get((frozenset(s.slice), s.metric), set()))) for s in summaries]


def _compare(one: CriterionConfig, row: Summary | None, observed: float | None) -> tuple[Verdict, str]:
    if row is None:
        place = ", ".join(f"{k}={'null' if v is None else v}" for k, v in one.slice.items()) or "the whole dataset"
        return "NOT_EVALUATED", f"{place} has no row for {one.metric}"
    scored = f"{row.scored_count} of {row.row_count} rows scored"
    if observed is None:
        return "NOT_EVALUATED", f"{one.statistic} is not defined ({scored})"
    if one.min is not None and observed < one.min:
        return "FAILED", f"{one.statistic} {observed!r} is below {one.min!r} ({scored})"
    if one.max is not None and observed > one.max:
        return "FAILED", f"{one.statistic} {observed!r} is above {one.max!r} ({scored})"
    return "PASSED", f"{one.statistic} {observed!r} is within bounds ({scored})"


def _find_interval(one: CriterionConfig, row: Summary) -> Interval:
    if one.confidence is not None:
        low, high = row.intervals.get(level_key(one.confidence), {}).get(one.statistic, (None, None))
        return low, high
    return intervals_of(row).get(one.statistic, (None, None))


def _is_shown(one: CriterionConfig, observed: float | None, found: Interval, verdict: Verdict) -> bool | None:
    """Returns whether the whole interval has the verdict of the statistic."""
    low, high = found
    if low is None or high is None or observed in (one.min, one.max):
        return None
    return _place(one, low, high) == verdict


def _place(one: CriterionConfig, low: float, high: float) -> Verdict:
    """Returns PASSED if all of an interval is within the bounds, FAILED if none of it is."""
    least, most = -math.inf if one.min is None else one.min, math.inf if one.max is None else one.max
    if least <= low and high <= most:
        return "PASSED"
    return "FAILED" if high < least or low > most else "INCONCLUSIVE"


def _decide(one: CriterionConfig, row: Summary | None, observed: float | None, found: Interval) -> tuple[Verdict, str]:
    """Judges by the interval."""
    if row is None or observed is None:
        return _compare(one, row, observed)
    scored = f"{row.scored_count} of {row.row_count} rows scored"
    low, high = found
    if low is None or high is None:
        return "INCONCLUSIVE", f"{one.statistic} {observed!r} has no interval ({scored}): n too small to show one"
    verdict = _place(one, low, high)
    words = {"PASSED": "is within bounds", "FAILED": "is out of bounds", "INCONCLUSIVE": "is on both sides of a bound"}
    text = f"{one.statistic} {observed!r}: {say_interval(low, high, one.confidence or 0.0)} {words[verdict]}"
    return verdict, f"{text} ({scored})"


def _worst(verdicts: set[Verdict]) -> Verdict | None:
    order: tuple[Verdict, ...] = ("FAILED", "NOT_EVALUATED", "INCONCLUSIVE", "PASSED")
    return next((v for v in order if v in verdicts), None)


def _unknown(kind: str, name: str, choices: Collection[str], where: str) -> ConfigError:
    return name_error(f"no {kind} named {name!r}", name, choices, where)
