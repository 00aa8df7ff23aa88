"""What answers of judges become by their schema."""

from __future__ import annotations

from typing import Any

import pytest

from evalbeam.transforms.judging.shapes import TEXT, SchemaMismatch, fit, object_of, one_of

RATED = object_of(explanation=TEXT, score=one_of(1, 2, 3, 4, 5))
CONFIDENT = object_of(score={"type": "number"}, confidence={"type": "number"})


@pytest.mark.parametrize("said", [4, 4.0, "4", " 4 ", "4.0"])
def test_a_score_may_be_text(said: Any) -> None:
    found: Any = fit({"explanation": "4", "score": said}, RATED)
    assert found == {"explanation": "4", "score": 4}
    assert isinstance(found["score"], int)


def test_any_number_may_be_text() -> None:
    assert fit({"score": "-0.5", "confidence": "1e-1"}, CONFIDENT) == {"score": -0.5, "confidence": 0.1}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("four", "score is 'four' (allowed: integer)"),
        ("", "score is '' (allowed: integer)"),
        ("4/5", "score is '4/5' (allowed: integer)"),
        ("٤", "score is '٤' (allowed: integer)"),
        ("9" * 30, "score is not finite or beyond 64 bits (allowed: integer)"),
        ("4.5", "score is float (allowed: integer)"),
        ("6", "score is none of 1, 2, 3, 4, 5"),
        (True, "score is bool (allowed: integer)"),
        (None, "score is null (allowed: integer)"),
        ("x" * 1000, f"score is {'x' * 100!r} (allowed: integer)"),
    ],
)
def test_what_is_no_score_is_said(said: Any, message: str) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        fit({"explanation": "", "score": said}, RATED)
    assert str(caught.value) == message


def test_a_choice_of_texts_stays_text() -> None:
    assert fit("4", one_of("4", "5")) == "4"
    assert fit("4", TEXT) == "4"
