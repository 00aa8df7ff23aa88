"""The checker `judge`: a judge model with one question per claim and the texts it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ...schemas.errors import ConfigError, RowError
from ...schemas.json import Json
from ...schemas.judging import Answer, Ask
from ...schemas.result import ScoreError
from ...schemas.values import mean
from ..grounding.check import Outcome, Pair, Source, Verdict
from ..grounding.passages import Text
from ..grounding.request import Request
from ..grounding.response import build_response
from ..judges.base import Judge
from ..judging.panel import PanelSlot
from ..judging.prompts import load_prompt
from ..judging.shapes import TEXT, object_of, one_of
from ..registry import build, find
from ..runtime.dialogue import Asking, Dialogue, run_together
from .base import AskingChecker, Unjudged, register, start_check

PARTLY = 0.2
"""Probability of entailment of a partly entailed claim; below any usual threshold, so it is not grounded."""
_VERDICTS = {
    "ENTAILED": Verdict(1.0, 0.0),
    "PARTLY": Verdict(PARTLY, 0.0),
    "CONTRADICTED": Verdict(0.0, 1.0),
    "UNRELATED": Verdict(0.0, 0.0),
}
_HELPFUL = object_of(explanation=TEXT, score=one_of(*range(11)))
_ALONE = (PanelSlot("default", 0),)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A claim and the texts of one question."""

    claim: Text
    texts: tuple[Text, ...]

    def make_ask(self) -> Callable[[PanelSlot], Ask]:
        """Returns a function that builds the question for a slot."""
        texts = "\n\n".join(f"text_{i}:\n{t.text.strip()}" for i, t in enumerate(self.texts, 1))
        shape = object_of(explanation=TEXT, **{f"text_{i}": one_of(*_VERDICTS) for i in range(1, len(self.texts) + 1)})
        return load_prompt("grounding/claim").bind(shape, {"claim": self.claim.text, "texts": texts})

    def verdicts(self, values: Sequence[Mapping[str, str]]) -> list[Verdict]:
        """Averages the votes for each text."""
        found = [[_VERDICTS[value[f"text_{i}"]] for value in values] for i in range(1, len(self.texts) + 1)]
        return [Verdict(*(mean(part) for part in zip(*votes, strict=True))) for votes in found]


@register("checker", "judge")
@dataclass(frozen=True)
class JudgeChecker(AskingChecker):
    """Asks a judge model about each claim; the only checker that scores helpfulness.

    Votes are averaged; a partly entailed claim scores 0.2. In a run, the metric's `judge` selects the judge; the
    parameters below apply outside of a run.

    Attributes:
        judge: The judge: `{type: NAME, parameters ...}` as under `judges` in a configuration.
        max_in_flight: Maximum number of concurrent questions.
    """

    judge: Any = None
    max_in_flight: int = 8

    prompts = ("grounding/claim", "grounding/helpfulness")

    def judge_request(
        self, request: Request, slots: Sequence[PanelSlot], corpus: Source | None = None, language: str = "en"
    ) -> Asking[Ask, Answer, dict[str, Json]]:
        """Judges a request claim by claim.

        Claims are not split into clauses: the judge itself says if a text supports one partly, in a single call.
        """
        check = Dialogue(start_check(request, corpus, language, by_clause=False))
        while check.asked is not None:
            groups = _group_pairs(check.asked)
            answers = yield [ask(slot) for ask in map(_Asked.make_ask, groups) for slot in slots]
            votes = [answers[i : i + len(slots)] for i in range(0, len(answers), len(slots))]
            check.answer([v for g, own in zip(groups, votes, strict=True) for v in g.verdicts(_collect_votes(own))])
        return (yield from self._add_helpfulness(check.result, request, slots))

    def _add_helpfulness(
        self, outcome: Outcome, request: Request, slots: Sequence[PanelSlot]
    ) -> Asking[Ask, Answer, dict[str, Json]]:
        response = build_response(outcome, request.spec)
        if request.spec.helpfulness:
            values = {"prompt": request.prompt, "answer": request.answer}
            answers = yield list(map(load_prompt("grounding/helpfulness").bind(_HELPFUL, values), slots))
            scores = [value["score"] for value in _collect_votes(answers)]
            response["helpfulnessScore"] = mean(scores) / 10
        return response

    def judge_requests(
        self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en"
    ) -> Asking[Ask, Answer, list[dict[str, Json] | RowError]]:
        """Judges several requests concurrently; returns the response or the error of each."""
        return run_together([self._response(request, corpus, language) for request in requests])

    def own_judge(self) -> Judge:
        """Builds the checker's own judge, for use outside of a run.

        Raises:
            ConfigError: The judge is missing or cannot be built.
        """
        if self.judge is None:
            raise ConfigError("missing", where="checker.judge", allowed="{type: NAME, parameters ...} of a judge")
        return _build_judge(self.judge)

    def _response(
        self, request: Request, corpus: Source | None, language: str
    ) -> Asking[Ask, Answer, dict[str, Json] | RowError]:
        try:
            return (yield from self.judge_request(request, _ALONE, corpus, language))
        except RowError as error:
            return error
        except Unjudged as unjudged:
            return RowError(unjudged.error.code, unjudged.error.message)


def _group_pairs(pairs: Sequence[Pair]) -> list[_Asked]:
    groups = [(claim, [text for _, text in own]) for claim, own in groupby(pairs, key=lambda pair: pair[0])]
    return [_Asked(claim, tuple(texts)) for claim, texts in groups]


def _collect_votes(answers: Sequence[Answer]) -> list[Any]:
    """Returns the values of the answers without those that failed.

    Raises:
        Unjudged: All answers failed, or one of the questions was not asked.
    """
    given = [answer.value for answer in answers if answer.error is None]
    errors = [answer for answer in answers if answer.error is not None]
    if errors and (not given or any(answer.open for answer in errors)):
        first = next((answer for answer in errors if answer.open), errors[0])
        raise Unjudged(first.error or ScoreError("judge_failed", ""), first.open)
    return given


def _build_judge(given: Any) -> Judge:
    if isinstance(given, Judge):
        return given
    params = dict(given) if isinstance(given, Mapping) else {}
    name = params.pop("type", None)
    if not isinstance(name, str):
        raise ConfigError(f"found {given!r}", where="checker.judge", allowed="{type: NAME, parameters ...}")
    return build(find("judge", name, "checker.judge"), params, "checker.judge")
