"""What a run that came to its end shows, and when its criteria have the last word."""

from __future__ import annotations

import pytest

from evalbeam.schemas.result import Summary
from evalbeam.transforms.statistics.criteria import Judgement
from evalbeam.transforms.statistics.slices import MetricFacts
from evalbeam.transforms.statistics.unscored import why_unscored

FACTS = [MetricFacts("latency_in_seconds"), MetricFacts("failure", True), MetricFacts("a"), MetricFacts("b", True)]


def judgement(metric: str, verdict: str) -> Judgement:
    return Judgement(metric, "mean", {}, 0.5, None, None, verdict, "")  # type: ignore[arg-type]


def why(
    first: tuple[int, int, int], second: tuple[int, int, int], counts: dict[str, int], **verdicts: str
) -> str | None:
    """The answer for two metrics, each with (scored, errors, skipped), and criteria by their metrics."""
    rows = sum(counts.values())
    found = [Summary((), name, rows, *numbers) for name, numbers in (("a", first), ("b", second))]
    found += [Summary((("s", "x"),), "a", 1, 0, 1, 0), Summary((), "failure", rows, rows, 0, 0)]
    found += [Summary((), "latency_in_seconds", rows, 0, 0, rows)]
    judged = [judgement(metric, verdict) for metric, verdict in verdicts.items()]
    return why_unscored(found, FACTS, counts, judged)


@pytest.mark.parametrize(
    ("a", "b", "counts", "said"),
    [
        ((1, 9, 0), (0, 0, 10), {"ok": 10}, None),
        ((0, 0, 0), (0, 0, 0), {}, None),
        ((1, 9, 0), (0, 9, 1), {"ok": 10}, None),  # one row lacks what b needs
        ((0, 0, 9), (0, 0, 9), {"ok": 0, "failed": 9}, "none of 9 rows has an answer (9 failed)"),
        ((0, 0, 9), (0, 0, 9), {"failed": 5, "not_called": 4}, "none of 9 rows has an answer (5 failed, 4 not_called)"),
        ((0, 0, 9), (0, 1, 8), {"ok": 9}, "no row was scored: a (0 errors, 9 skipped), b (1 errors, 8 skipped)"),
        ((9, 0, 0), (0, 9, 0), {"ok": 9}, "no row was scored by b (9 errors, 0 skipped)"),
        ((8, 0, 1), (0, 8, 1), {"ok": 8, "failed": 1}, "no row was scored by b (8 errors, 1 skipped)"),
    ],
)
def test_it_says_what_shows_nothing(
    a: tuple[int, int, int], b: tuple[int, int, int], counts: dict[str, int], said: str | None
) -> None:
    found = why(a, b, counts)
    assert (found is None) if said is None else (found or "").startswith(said)


@pytest.mark.parametrize("verdict", ["PASSED", "FAILED"])
def test_a_criterion_on_the_thing_itself_decides(verdict: str) -> None:
    assert why((0, 0, 9), (0, 0, 9), {"failed": 9}, failure=verdict) is None
    assert why((0, 0, 9), (0, 0, 9), {"failed": 9}, b=verdict) is None
    assert why((0, 0, 9), (0, 0, 9), {"ok": 9}, b=verdict) is None
    assert why((9, 0, 0), (0, 9, 0), {"ok": 9}, b=verdict) is None


def test_a_criterion_on_another_thing_or_without_a_value_decides_nothing() -> None:
    assert why((0, 0, 9), (0, 0, 9), {"failed": 9}, a="NOT_EVALUATED")
    assert why((0, 0, 9), (0, 0, 9), {"ok": 9}, failure="PASSED")
    assert why((9, 0, 0), (0, 9, 0), {"ok": 9}, a="PASSED", failure="PASSED")
    assert why((0, 9, 0), (0, 9, 0), {"ok": 9}, a="PASSED") == (
        "no row was scored by b (9 errors, 0 skipped); the column <metric>/error of the instances table says why"
    )


def test_a_run_without_metrics_is_judged_by_its_calls_alone() -> None:
    rows = [Summary((), "failure", 2, 2, 0, 0)]
    assert why_unscored(rows, FACTS[1:2], {"ok": 2}, ()) is None
    assert why_unscored(rows, FACTS[1:2], {"failed": 2}, ())


def test_a_pairwise_metric_is_one() -> None:
    facts = [MetricFacts("q", pairwise=True)]
    rows = [Summary((), row.name, 2, 0, 2, 0) for row in facts[0].rows()]
    assert (why_unscored(rows, facts, {"ok": 2}, ()) or "").startswith("no row was scored: q (2 errors")
    assert why_unscored(rows, facts, {"ok": 2}, [judgement("q/tie_rate", "FAILED")]) is None
