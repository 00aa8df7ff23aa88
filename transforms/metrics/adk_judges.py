"""ADK's criteria that need a judge model (google-adk 2.13), for any judge; the prompts are evalbeam's own.

Every turn of a conversation is judged, and a case is the mean over its turns that have a verdict, as in ADK. `details`
has the scores of the turns under "turns" and the verdicts under "judged". Two things differ from ADK: a failed vote
does not discard the other votes, and each turn is judged by its own rubrics.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...schemas.instance import Example, Turn
from ...schemas.json import Json
from ...schemas.judging import Judging
from ..judging.panel import PanelSlot, Vote, find_unasked
from ..judging.shapes import TEXT, list_of, object_of, one_of
from ..runtime.dialogue import run_together
from ._judged import make_rating, read_score
from ._judged_rubrics import TurnRubricJudge
from ._judged_turns import NOT_TOLD, TurnJudge, average, join_texts, list_steps, read_setting
from .base import register
from .kernels.sentences import splitter_of

VALID = object_of(reasoning=TEXT, is_the_agent_response_valid=one_of("valid", "invalid"))
LABELS = ("supported", "unsupported", "contradictory", "disputed", "not_applicable")
GROUNDED = ("supported", "not_applicable")
SENTENCES = object_of(
    sentences=list_of(object_of(number={"type": "integer"}, rationale=TEXT, label=one_of(*LABELS))),
)
_MARKER = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+")
"""Matches the marker of a list item."""


@register("metric", "adk/final_response_match_v2")
@dataclass(frozen=True, kw_only=True)
class FinalResponseMatchV2(TurnJudge):
    """Share of turns whose final response agrees with the expected one, in [0, 1]; higher is better.

    A tie of votes counts as invalid. Turns without an expected response do not count.

    Attributes:
        include_intermediate_responses_in_final: Put the agent's intermediate texts before its final response.
        empty_reference: Compare turns without an expected response with an empty one, as ADK does.
    """

    include_intermediate_responses_in_final: bool = False
    empty_reference: bool = False

    prompt: ClassVar[str] = "adk/final_response_match"
    missing: ClassVar[str] = "reference"
    expecting: ClassVar[bool] = True

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        if expected.response is None and not self.empty_reference:
            return None
        response = join_texts(actual, self.include_intermediate_responses_in_final)
        wanted = join_texts(expected, self.include_intermediate_responses_in_final)
        values = {"prompt": expected.prompt, "response": response, "reference": wanted}
        return self.poll(self.prompts[0], VALID, values, _read_valid)


def _read_valid(value: Any, slot: PanelSlot) -> Vote:
    return Vote(float(value["is_the_agent_response_valid"] == "valid"), value["reasoning"])


@register("metric", "adk/safety_v1")
@dataclass(frozen=True, kw_only=True)
class SafetyV1(TurnJudge):
    """Share of turns whose response is safe, in [0, 1]; higher is better.

    A judge decides, where ADK calls Vertex AI. A tie of votes counts as unsafe.
    """

    samples: int = 1

    prompt: ClassVar[str] = "rapid/safety"

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        return self.poll(self.prompts[0], make_rating(0, 1), {"prediction": actual.response or ""}, read_score)


@register("metric", "adk/rubric_based_final_response_quality_v1")
@dataclass(frozen=True, kw_only=True)
class RubricBasedFinalResponseQualityV1(TurnRubricJudge):
    """Share of rubrics that the final responses meet, in [0, 1]; higher is better.

    Rubrics of cases and turns count only if their type is FINAL_RESPONSE_QUALITY.

    Attributes:
        include_intermediate_responses_in_final: Put the agent's intermediate texts before its final response.
    """

    include_intermediate_responses_in_final: bool = False

    prompt: ClassVar[str] = "adk/rubrics_of_response"
    kind: ClassVar[str] = "FINAL_RESPONSE_QUALITY"

    def values(self, example: Example, actual: Turn) -> dict[str, Json]:
        response = join_texts(actual, self.include_intermediate_responses_in_final)
        return {**read_setting(example), "prompt": actual.prompt, "steps": list_steps(actual), "response": response}


@register("metric", "adk/rubric_based_tool_use_quality_v1")
@dataclass(frozen=True, kw_only=True)
class RubricBasedToolUseQualityV1(TurnRubricJudge):
    """Share of rubrics that the use of tools meets, in [0, 1]; higher is better.

    Rubrics of cases and turns count only if their type is TOOL_USE_QUALITY. No response is needed.
    """

    inputs: ClassVar[tuple[str, ...]] = ("predicted_trajectory",)
    prompt: ClassVar[str] = "adk/rubrics_of_tool_use"
    kind: ClassVar[str] = "TOOL_USE_QUALITY"

    def values(self, example: Example, actual: Turn) -> dict[str, Json]:
        calls = [s for s in list_steps(actual) if s["kind"] in ("call", "result")]
        return {"tools": read_setting(example)["tools"], "prompt": actual.prompt, "steps": calls}


@register("metric", "adk/hallucinations_v1")
@dataclass(frozen=True, kw_only=True)
class HallucinationsV1(TurnJudge):
    """Share of the responses' sentences that the agent's context supports, in [0, 1]; higher is better.

    A response is split into sentences by code, where ADK asks the model to do it. Each sentence gets a verdict:
    supported and not_applicable count 1; unsupported, contradictory and disputed count 0. A turn is the mean over its
    texts.

    Attributes:
        evaluate_intermediate_nl_responses: Judge the agent's intermediate texts too, each by the steps before it.
    """

    samples: int = 1
    evaluate_intermediate_nl_responses: bool = False

    prompt: ClassVar[str] = "adk/hallucinations"

    def turn(self, example: Example, expected: Turn, actual: Turn) -> Judging | None:
        happened = list_steps(actual)
        texts: list[tuple[str, list[dict[str, Json]]]] = []
        if self.evaluate_intermediate_nl_responses:
            texts = [(str(s["value"]), happened[:i]) for i, s in enumerate(happened) if s["kind"] == "text"]
        if actual.response:
            texts.append((actual.response, happened))
        cut = [(found, before) for text, before in texts if (found := split_sentences(text))]
        shown = {**read_setting(example), "prompt": actual.prompt}
        return self._mean([self._text(found, {**shown, "steps": before}) for found, before in cut]) if cut else None

    def _mean(self, judgings: Sequence[Judging]) -> Judging:
        scores = yield from run_together(judgings)
        details = [d for s in scores for d in (s.details or ())]  # type: ignore[union-attr]
        return find_unasked(scores) or average(scores, {"sentences": details})

    def _text(self, found: Sequence[str], values: dict[str, Json]) -> Judging:
        labels: list[str | None] = [None] * len(found)

        def read(value: Any) -> list[Vote]:
            told = {s["number"]: s for s in reversed(value["sentences"])}
            votes = []
            for i in range(len(found)):
                one = told.get(i + 1)
                labels[i] = labels[i] or (one and one["label"])
                votes.append(NOT_TOLD if one is None else Vote(float(one["label"] in GROUNDED), one["rationale"]))
            return votes

        shown = [{"number": i + 1, "sentence": text} for i, text in enumerate(found)]
        scores = yield from self.ask_jointly({**values, "sentences": shown}, SENTENCES, read, len(found))
        if open_ := find_unasked(scores):
            return open_
        told = [
            {"sentence": text, "label": label, "score": s.value, "rationale": s.explanation}
            for text, label, s in zip(found, labels, scores, strict=True)
        ]
        return replace(average(scores, {}), details=told)


def split_sentences(text: str) -> list[str]:
    """Splits a response into sentences: sentences end at line ends, and the lines of a table are one sentence."""
    found: list[str] = []
    in_table = False
    for line in text.splitlines():
        row = line.lstrip().startswith("|")
        if row and in_table:
            found[-1] += "\n" + line.strip()
        else:
            found += [line.strip()] if row else _split_line(line)
        in_table = row and bool(found)
    return found


def _split_line(line: str) -> list[str]:
    marker = _MARKER.match(line)
    start = marker.end() if marker else 0
    cut = [s.strip() for s in splitter_of("sentencex")(line[start:]) if any(c.isalnum() for c in s)]
    return [line[:start].lstrip() + cut[0], *cut[1:]] if cut else []
