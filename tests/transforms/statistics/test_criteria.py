"""Criteria: what a configuration may say, and what verdict follows."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from evalbeam.schemas.config.evaluation import CriterionConfig
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.result import Summary
from evalbeam.transforms.aggregate import SummaryCoder
from evalbeam.transforms.statistics.criteria import (
    STATISTICS,
    Threshold,
    add_verdicts,
    check,
    judge,
    level_key,
    levels_of,
    threshold,
)

METRICS = {"quality": (1.0, 5.0), "latency_in_seconds": None, "choice/candidate_model_win_rate": (0.0, 1.0)}


def criterion(metric: str = "quality", **values: Any) -> CriterionConfig:
    return CriterionConfig(metric=metric, **({"min": 0.8} | values))


def row(mean: float | None, slice_: tuple[tuple[str, str | None], ...] = (), **values: Any) -> Summary:
    return Summary(slice_, "quality", 10, 8, 1, 1, mean=mean, **values)


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (criterion("qualiti"), "criteria.1.metric: no metric named 'qualiti'; did you mean 'quality'?"),
        (
            criterion(statistic="meen"),
            "criteria.1.statistic: no statistic named 'meen'; did you mean 'mean' or 'median'?",
        ),
        (criterion(statistic="ci_method"), "criteria.1.statistic: no statistic named 'ci_method' (allowed:"),
        (criterion(slice={"locale": "de"}), "criteria.1.slice: no slice by the columns locale (allowed: category; cat"),
        (criterion(min=0.9, max=0.1), "criteria.1: min 0.9 is above max 0.1 (allowed: min <= max)"),
        (criterion(statistic="judges"), "criteria.1.statistic: no statistic named 'judges'; did you mean "),
        (criterion(min=90), "criteria.1.min: found 90, which is beyond every mean of quality (allowed: 1 to 5)"),
        (criterion(min=None, max=0.9), "criteria.1.max: found 0.9, which is beyond every mean of quality (allowed: 1 "),
        (criterion(statistic="p90", max=50), "criteria.1.max: found 50, which is beyond every p90 of quality (allowed"),
        (criterion(statistic="pass_rate", min=80), "criteria.1.min: found 80, which is beyond every pass_rate of qual"),
        (
            criterion(statistic="ci_low", min=2, confidence=0.9),
            "criteria.1.confidence: ci_low has no interval that could decide (allowed: with mean, median, p90, p",
        ),
        (
            criterion(min=5, confidence=0.9),
            "criteria.1.min: found 5, which no number of rows shows with a confidence (allowed: between 1 and 5)",
        ),
    ],
)
def test_a_criterion_that_cannot_be_meant_is_a_configuration_error(one: CriterionConfig, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check([criterion(), one], METRICS, [["category"], ["category", "locale"]])
    assert str(caught.value).startswith(message)


def test_what_the_summary_table_has_may_be_bounded() -> None:
    check([criterion(statistic=name) for name in STATISTICS], METRICS, [], METRICS)
    check([criterion("choice/candidate_model_win_rate")], METRICS, [])
    check([criterion(min=0), criterion(min=5, max=5), criterion("latency_in_seconds", min=None, max=90)], METRICS, [])
    check([criterion(statistic="std", min=9), criterion(statistic="row_count", min=100)], METRICS, [])
    check([criterion(slice={"locale": "de", "category": "x"})], METRICS, [["category", "locale"]])
    assert "row_count" in STATISTICS
    assert not {"metric", "slice", "verdict", "threshold", "ci_method"} & set(STATISTICS)


@pytest.mark.parametrize(
    ("mean", "bounds", "verdict", "reason"),
    [
        (0.8, {}, "PASSED", "mean 0.8 is within bounds (8 of 10 rows scored)"),
        (0.79999999, {}, "FAILED", "mean 0.79999999 is below 0.8 (8 of 10 rows scored)"),
        (0.8, {"min": None, "max": 0.8}, "PASSED", "mean 0.8 is within bounds (8 of 10 rows scored)"),
        (0.9, {"min": 0.1, "max": 0.8}, "FAILED", "mean 0.9 is above 0.8 (8 of 10 rows scored)"),
        (None, {}, "NOT_EVALUATED", "mean is not defined (8 of 10 rows scored)"),
    ],
)
def test_bounds_are_inclusive(mean: float | None, bounds: dict[str, Any], verdict: str, reason: str) -> None:
    [found], overall = judge([row(mean)], [criterion(**bounds)])
    assert (found.observed, found.verdict, found.reason, overall) == (mean, verdict, reason, verdict)


def test_a_criterion_on_a_slice_looks_at_its_row_alone() -> None:
    rows = [row(0.9), row(0.1, (("c", "x"),)), row(0.95, (("c", None),)), row(0.9, (("c", "x"), ("l", "y")))]
    one, other = criterion(slice={"c": "x"}), criterion(slice={"l": "y", "c": "x"})
    assert [j.verdict for j in judge(rows, [criterion(), one, other])[0]] == ["PASSED", "FAILED", "PASSED"]
    [missing], overall = judge(rows, [criterion(slice={"c": "z"})])
    assert (missing.verdict, missing.reason, overall) == (
        "NOT_EVALUATED",
        "c=z has no row for quality",
        "NOT_EVALUATED",
    )


@pytest.mark.parametrize(("value", "text"), [(None, None), (1, "1"), (2.0, "2"), (True, "true"), ("02", "02")])
def test_values_of_a_slice_are_written_as_in_the_dataset(value: Any, text: str | None) -> None:
    others = [row(0.1, (("c", other),)) for other in ("", "None", "True", "2.0") if other != text]
    one = criterion(slice={"c": value})
    assert judge([*others, row(0.9, (("c", text),))], [one])[1] == "PASSED"
    [missing], _ = judge(others, [one])
    assert missing.reason == f"c={text or 'null'} has no row for quality"


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ([], "PASSED"),
        ([0.9, 0.8], "PASSED"),
        ([0.9, None], "NOT_EVALUATED"),
        ([None, 0.1, 0.9], "FAILED"),
    ],
)
def test_overall_verdict(means: list[float | None], verdict: str) -> None:
    rows = [row(mean, (("c", str(i)),)) for i, mean in enumerate(means)]
    assert judge(rows, [criterion(slice={"c": str(i)}) for i in range(len(means))])[1] == verdict


def test_rows_carry_the_verdict_of_their_criteria() -> None:
    rows = [row(0.9, coverage=0.8), row(None, (("c", "x"),)), row(0.9, (("c", "y"),))]
    judgements, _ = judge(rows, [criterion(), criterion(statistic="coverage", min=0.9), criterion(slice={"c": "x"})])
    assert [s.verdict for s in add_verdicts(rows, judgements)] == ["FAILED", "NOT_EVALUATED", None]


def test_judgements_are_json() -> None:
    [found], _ = judge([row(0.5)], [criterion()])
    assert orjson.loads(orjson.dumps(found)) == {
        "metric": "quality",
        "statistic": "mean",
        "slice": {},
        "min": 0.8,
        "max": None,
        "observed": 0.5,
        "verdict": "FAILED",
        "reason": "mean 0.5 is below 0.8 (8 of 10 rows scored)",
        "decided_by": "statistic",
        "confidence": 0.95,
        "low": None,
        "high": None,
        "shown": None,
    }


def with_interval(low: float | None, high: float | None, level: float = 0.9) -> Summary:
    return row(0.5, ci_low=0.0, ci_high=1.0, intervals={level_key(level): {"mean": (low, high)}})


@pytest.mark.parametrize(
    ("bounds", "interval", "verdict", "reason"),
    [
        ({"min": 0.4}, (0.4, 0.6), "PASSED", "mean 0.5: 0.4 … 0.6 at 90 % is within bounds (8 of 10 rows scored)"),
        ({"min": 0.41}, (0.4, 0.6), "INCONCLUSIVE", "mean 0.5: 0.4 … 0.6 at 90 % is on both sides of a bound (8"),
        ({"min": 0.6}, (0.4, 0.6), "INCONCLUSIVE", "is on both sides"),
        ({"min": 0.61}, (0.4, 0.6), "FAILED", "mean 0.5: 0.4 … 0.6 at 90 % is out of bounds (8 of 10 rows scored)"),
        ({"min": None, "max": 0.6}, (0.4, 0.6), "PASSED", ""),
        ({"min": None, "max": 0.39}, (0.4, 0.6), "FAILED", ""),
        ({"min": 0.45, "max": 0.55}, (0.4, 0.6), "INCONCLUSIVE", ""),
        ({"min": 0.3, "max": 0.7}, (0.4, 0.6), "PASSED", ""),
        ({"min": 0.4}, (None, None), "INCONCLUSIVE", "mean 0.5 has no interval (8 of 10 rows scored)"),
        ({"min": 0.4}, (None, 0.6), "INCONCLUSIVE", "has no interval"),
    ],
)
def test_an_interval_decides(bounds: dict, interval: tuple, verdict: str, reason: str) -> None:
    [found], whole = judge([with_interval(*interval)], [criterion(confidence=0.9, **bounds)])
    assert (found.verdict, whole, found.decided_by, found.confidence) == (verdict, verdict, "interval", 0.9)
    assert reason in found.reason
    assert found.shown is None


@pytest.mark.parametrize(
    ("mean", "interval", "shown"),
    [(0.9, (0.85, 0.95), True), (0.9, (0.7, 0.95), False), (0.7, (0.6, 0.85), False), (0.7, (0.6, 0.75), True)],
)
def test_a_verdict_that_the_interval_does_not_show_says_so(mean: float, interval: tuple, shown: bool) -> None:
    given = row(mean, ci_low=interval[0], ci_high=interval[1])
    [found], _ = judge([given], [criterion()], confidence=0.95)
    assert (found.verdict, found.shown) == ("PASSED" if mean > 0.8 else "FAILED", shown)
    text = f"; {interval[0]} … {interval[1]} at 95 %: n too small to show this"
    assert found.reason.endswith(text) is not shown


def test_no_number_of_rows_shows_a_statistic_that_is_the_bound() -> None:
    [found], _ = judge([row(0.8, ci_low=0.7, ci_high=0.9)], [criterion()])
    assert (found.verdict, found.shown) == ("PASSED", None)


def test_without_a_value_no_interval_decides() -> None:
    [found], whole = judge([row(None)], [criterion(confidence=0.9)])
    assert (found.verdict, whole) == ("NOT_EVALUATED", "NOT_EVALUATED")
    assert found.reason == "mean is not defined (8 of 10 rows scored)"


def test_an_inconclusive_criterion_is_worse_than_a_passed_one_alone() -> None:
    rows = [with_interval(0.4, 0.6), row(None, (("c", "x"),))]
    inconclusive, passed = criterion(min=0.5, confidence=0.9), criterion(min=0.1)
    assert judge(rows, [passed, inconclusive])[1] == "INCONCLUSIVE"
    assert judge(rows, [inconclusive, criterion(slice={"c": "x"})])[1] == "NOT_EVALUATED"
    assert judge(rows, [inconclusive, criterion(min=0.9)])[1] == "FAILED"
    assert judge(rows, [inconclusive], stopped=True)[1] == "NOT_EVALUATED"


def test_intervals_survive_their_way_between_workers() -> None:
    given, asked = with_interval(0.4, 0.6), [criterion(min=0.4, confidence=0.9)]
    coder = SummaryCoder()
    assert judge([coder.decode(coder.encode(given))], asked) == judge([given], asked)


def test_levels_are_asked_for_by_metric() -> None:
    given = [criterion(confidence=0.99), criterion("other"), criterion(confidence=0.9), criterion(confidence=0.9)]
    assert levels_of(given) == {"quality": (0.9, 0.99)}


@pytest.mark.parametrize(
    ("criteria", "ends", "expected"),
    [
        ([criterion()], (0.0, 1.0), Threshold(0.8)),
        ([criterion(max=0.9)], (0.0, 1.0), Threshold(0.8)),
        ([criterion(min=None, max=0.9)], (0.0, 1.0), None),
        ([criterion(min=0.1, max=0.9)], (1.0, 0.0), Threshold(0.9, at_most=True)),
        ([criterion(min=None, max=2.5)], None, Threshold(2.5, at_most=True)),
        ([criterion(min=0.1, max=2.5)], None, Threshold(0.1)),
        ([criterion(statistic="min", min=0.3), criterion()], (0.0, 1.0), Threshold(0.8)),
        ([criterion(statistic="min", min=0.3)], (0.0, 1.0), Threshold(0.3)),
        ([criterion(statistic="coverage")], (0.0, 1.0), None),
        ([criterion(slice={"c": "x"})], (0.0, 1.0), None),
        ([criterion("other")], (0.0, 1.0), None),
    ],
)
def test_what_one_score_must_reach(criteria: list, ends: tuple | None, expected: Threshold | None) -> None:
    assert threshold(criteria, "quality", ends) == expected
