"""What is known of a followed metric: its interval on its own scale, in words, and in the summary."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.result import Summary
from evalbeam.transforms.statistics.following import Followed, confidence_sequence, mark_intervals
from evalbeam.transforms.statistics.sequential import mean_sequence, share_sequence


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.sampled_from([(0.0, 1.0), (1.0, 5.0), (-2.0, 2.0)]))
def test_intervals_are_those_of_the_unit_range_on_the_metrics_own(
    shares: list[float], ends: tuple[float, float]
) -> None:
    low, high = ends
    means = [min(low + share * (high - low), high) for share in shares]
    scaled = [(mean - low) / (high - low) for mean in means]
    for found, expected in (
        (confidence_sequence(means, ends, 0.9, False), mean_sequence(scaled, 0.9)),
        (confidence_sequence(means, ends, 0.9, True), share_sequence(sum(scaled), len(scaled), 0.9)),
    ):
        assert found == pytest.approx(tuple(low + end * (high - low) for end in expected))
        assert low - 1e-12 <= found[0] <= found[1] <= high + 1e-12


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_the_interval_of_means_of_several_0_and_1_scores_holds_their_mean(values: list[float]) -> None:
    low, high = confidence_sequence(values, (0.0, 1.0), 0.95, True)
    mean = sum(values) / len(values)
    assert 0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (Followed("m", 0.8, 0.95), "not decided: m scored none of the first 0 rows"),
        (Followed("m", 0.8, 0.95, 50, 0.75, 0.85), "not decided after 50 rows: m may be 0.8 (0.75 … 0.85 at 0.95)"),
        (Followed("m", 3, 0.9, 50, 1, 2.5, "below"), "decided after 50 rows: m is below 3 (1 … 2.5 at 0.9)"),
        (Followed("m", 3, 0.9, 50, problem="why"), "not decided: why"),
    ],
)
def test_it_says_what_is_known_and_ends_calls_only_if_that_is_enough(known: Followed, text: str) -> None:
    assert known.text == known.json["text"] == text
    assert known.closed == (text if known.side else "")


def test_it_survives_a_shuffle() -> None:
    for found in (Followed("m", 0.5, 0.95), Followed("m", 0.5, 0.95, 50, 0.6, 0.8, "above", "why")):
        assert Followed.from_bytes(found.to_bytes()) == found


def test_the_followed_metric_has_its_own_interval_and_others_are_marked() -> None:
    def row(metric: str, method: str | None, **more: Any) -> Summary:
        return Summary(more.pop("slice", ()), metric, 9, 9, 0, 0, ci_low=0.1, ci_high=0.9, ci_method=method, **more)

    rows = [row("m", "wilson"), row("m", "wilson", slice=(("c", "x"),)), row("n", "t"), row("o", None)]
    assert mark_intervals(rows, None) == rows
    found = mark_intervals(rows, Followed("m", 0.5, 0.95, 9, 0.6, 0.8, "above"))
    assert [(r.ci_low, r.ci_method) for r in found] == [
        (0.6, "sequential"),
        (0.1, "wilson, stopped"),
        (0.1, "t, stopped"),
        (0.1, None),
    ]
    assert mark_intervals(rows, Followed("m", 0.5, 0.95))[0].ci_method == "wilson, stopped"
