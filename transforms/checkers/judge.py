"""A judge model as a checker: one question for each claim, with the texts it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
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
from ..grounding.response import response_of
from ..judges.base import Judge
from ..judging.panel import PanelSlot
from ..judging.prompts import load
from ..judging.shapes import TEXT, object_of, one_of
from ..judging.side_by_side import together
from ..registry import build, find
from .base import AskingChecker, Unjudged, checking_of, register

PARTLY = 0.2
"""Probability of entailment that a claim entailed in part is given: it is not grounded."""
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
    """A claim and the texts that stand in one question."""

    claim: Text
    texts: tuple[Text, ...]

    def asking(self) -> Callable[[PanelSlot], Ask]:
        """What makes the question for each place."""
        texts = "\n\n".join(f"text_{i}:\n{t.text.strip()}" for i, t in enumerate(self.texts, 1))
        shape = object_of(explanation=TEXT, **{f"text_{i}": one_of(*_VERDICTS) for i in range(1, len(self.texts) + 1)})
        return load("grounding/claim").asking(shape, {"claim": self.claim.text, "texts": texts})

    def verdicts(self, values: Sequence[Mapping[str, str]]) -> list[Verdict]:
        """The mean of the votes for each text."""
        found = [[_VERDICTS[value[f"text_{i}"]] for value in values] for i in range(1, len(self.texts) + 1)]
        return [Verdict(*(mean(part) for part in zip(*votes, strict=True))) for votes in found]


@register("checker", "judge")
@dataclass(frozen=True)
class JudgeChecker(AskingChecker):
    """Asks a judge model, claim by claim; the only checker that scores helpfulness.

    Votes are averaged; a claim that a text entails in part counts 0.2 for it. In a run, the metric's `judge` names the
    judge; outside of one it stands here.

    Attributes:
        judge: A judge as under `judges` in a configuration, `{type: NAME, parameters ...}`.
        max_in_flight: Questions at once outside of a run, at most.
    """

    judge: Any = None
    max_in_flight: int = 8

    prompts = ("grounding/claim", "grounding/helpfulness")

    def asking(
        self, request: Request, places: Sequence[PanelSlot], corpus: Source | None = None, language: str = "en"
    ) -> Generator[list[Ask], Sequence[Answer], dict[str, Json]]:
        """The response to a request, asked for question by question."""
        check = checking_of(request, corpus, language)
        verdicts: list[Verdict] | None = None
        while True:
            try:
                pairs = check.send(verdicts)  # type: ignore[arg-type]  (None starts a generator)
            except StopIteration as done:
                return (yield from self._finished(done.value, request, places))
            groups = _grouped(pairs)
            answers = yield [ask(seat) for ask in map(_Asked.asking, groups) for seat in places]
            votes = [answers[i : i + len(places)] for i in range(0, len(answers), len(places))]
            verdicts = [v for g, own in zip(groups, votes, strict=True) for v in g.verdicts(_values(own))]

    def _finished(
        self, outcome: Outcome, request: Request, places: Sequence[PanelSlot]
    ) -> Generator[list[Ask], Sequence[Answer], dict[str, Json]]:
        response = response_of(outcome, request.spec)
        if request.spec.helpfulness:
            values = {"prompt": request.prompt, "answer": request.answer}
            answers = yield list(map(load("grounding/helpfulness").asking(_HELPFUL, values), places))
            scores = [value["score"] for value in _values(answers)]
            response["helpfulnessScore"] = mean(scores) / 10
        return response

    def answering(
        self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en"
    ) -> Generator[list[Ask], Sequence[Answer], list[dict[str, Json] | RowError]]:
        """The response to each request, or why there is none; the questions of all of them are asked side by side."""
        return together([self._response(request, corpus, language) for request in requests])

    def own_judge(self) -> Judge:
        """The judge that stands in the checker, for use outside of a run.

        Raises:
            ConfigError: There is none, or it cannot be made.
        """
        if self.judge is None:
            raise ConfigError("missing", where="checker.judge", allowed="{type: NAME, parameters ...} of a judge")
        return _built(self.judge)

    def _response(
        self, request: Request, corpus: Source | None, language: str
    ) -> Generator[list[Ask], Sequence[Answer], dict[str, Json] | RowError]:
        try:
            return (yield from self.asking(request, _ALONE, corpus, language))
        except RowError as error:
            return error
        except Unjudged as unjudged:
            return RowError(unjudged.error.code, unjudged.error.message)


def _grouped(pairs: Sequence[Pair]) -> list[_Asked]:
    groups = [(claim, [text for _, text in own]) for claim, own in groupby(pairs, key=lambda pair: pair[0])]
    return [_Asked(claim, tuple(texts)) for claim, texts in groups]


def _values(answers: Sequence[Answer]) -> list[Any]:
    """The votes that were given.

    Raises:
        Unjudged: There is none.
    """
    given = [answer.value for answer in answers if answer.error is None]
    errors = [answer for answer in answers if answer.error is not None]
    if errors and (not given or any(answer.open for answer in errors)):
        first = next((answer for answer in errors if answer.open), errors[0])
        raise Unjudged(first.error or ScoreError("judge_failed", ""), first.open)
    return given


def _built(given: Any) -> Judge:
    if isinstance(given, Judge):
        return given
    params = dict(given) if isinstance(given, Mapping) else {}
    name = params.pop("type", None)
    if not isinstance(name, str):
        raise ConfigError(f"found {given!r}", where="checker.judge", allowed="{type: NAME, parameters ...}")
    return build(find("judge", name, "checker.judge"), params, "checker.judge")
