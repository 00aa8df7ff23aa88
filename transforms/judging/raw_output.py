"""Judges' texts that a user's function parses, as with the SDK's `CustomOutputConfig`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...schemas.json_text import jsonable
from ...schemas.judging import Ask, Judging
from ...schemas.result import Score
from ...schemas.values import number_in, quick_json
from .panel import PanelSlot

_CHOICES = {"A": "BASELINE", "B": "CANDIDATE", "SAME": "TIE", **{n: n for n in ("BASELINE", "CANDIDATE", "TIE")}}


@dataclass(frozen=True)
class CustomOutputConfig:
    """Settings for reading a judge's text instead of a structured answer.

    Attributes:
        return_raw_output: True to ask for a free text, which the details keep.
        parsing_fn: Function from the texts of all votes to a mapping. Its `score`, `pairwise_choice` and `explanation`
            fill the columns of these names; everything else becomes the details.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # a misspelt key of a configuration is an error

    return_raw_output: bool = False
    parsing_fn: Callable[[list[str]], Mapping[str, Any]] | None = None


TEXT_ALONE = Score(label="text")
"""The score of a text in which there is no number: it counts as scored, and has no mean."""


def judge_text(
    slots: Sequence[PanelSlot], ask: Callable[[PanelSlot], Ask], parse: Any, without: Score = TEXT_ALONE
) -> Judging:
    """Collects a text for every slot and has `parse` read them, if it is not `None`.

    Args:
        slots: The slots of the panel.
        ask: Builds the question for a slot.
        parse: Function from the texts to a mapping.
        without: The score, apart from its details, if there is neither a score nor a choice.
    """
    answers = yield [ask(slot) for slot in slots]
    left = next((answer.error for answer in answers if answer.open), None)
    if left is not None:
        return Score.skipped(left.code, left.message)
    texts = [answer.value for answer in answers if answer.error is None]
    if not texts:
        return Score(status="error", error=answers[0].error)
    if parse is None:
        return replace(without, details={"raw_output": texts})
    found = parse(texts)
    if not isinstance(found, Mapping):
        return Score.failed("invalid_score", f"parsing_fn returned {type(found).__name__} (allowed: a mapping)")
    return _to_score({"raw_outputs": texts, **found}, without)


def _to_score(found: dict[str, Any], without: Score) -> Score:
    value, choice = found.pop("score", None), found.pop("pairwise_choice", None)
    explanation = found.pop("explanation") if isinstance(found.get("explanation"), str) else None
    label = None if choice is None else _CHOICES.get(str(choice).strip().upper())
    if choice is not None and label is None:
        words = f"pairwise_choice is {str(choice)[:100]!r} (allowed: BASELINE, CANDIDATE, TIE)"
        return Score.failed("invalid_verdict", words)
    said = number_in(value) if isinstance(value, str) else value
    if said is None and value is not None:
        return Score.failed("invalid_score", f"the score is {value[:100]!r} (allowed: a number)")
    number = None if said is None else float(said)
    if number is not None and not math.isfinite(number):
        return Score.failed("invalid_score", f"the score is {number} (allowed: a finite number)")
    score = without if number is None and label is None else Score(number, label)
    return replace(score, explanation=explanation, details=quick_json(jsonable(found)))
