"""Scores that a user's function reads from judges' texts."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score
from evalbeam.transforms.metrics.template import CustomOutputConfig, PointwiseMetric

from .scripted import held

EXAMPLE = Example(Instance("0", {}), Invocation(response="Hi."))


def score_of(found: Any) -> Score:
    config = CustomOutputConfig(parsing_fn=lambda texts: {"score": found})
    metric = PointwiseMetric(metric="m", metric_prompt_template="Rate {response}.", custom_output_config=config)
    return held(metric.judged(EXAMPLE), "the text")[0]


@pytest.mark.parametrize("found", [4, 4.0, "4", " 4.0 "])
def test_a_score_may_be_text(found: Any) -> None:
    assert score_of(found).value == 4.0


@pytest.mark.parametrize("found", ["four", "", "4/5", "nan"])
def test_text_without_a_number_is_said(found: str) -> None:
    error = score_of(found).error
    assert error is not None
    assert (error.code, error.message) == ("invalid_score", f"the score is {found!r} (allowed: a number)")
