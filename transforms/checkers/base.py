"""What a checker is: it tells how far answers are grounded in facts.

A checker is a frozen dataclass whose fields are the parameters a configuration may set, registered under a name. Most
are pair checkers: they say of pairs of a claim and a text how likely the text entails, and contradicts, the claim. What
pairs are asked for, and what becomes of the verdicts, is the same for all of them (grounding/check.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from ...schemas.errors import ConfigError, RowError
from ...schemas.json import Json
from ...schemas.judging import PROMPTS, Answer, Ask
from ...schemas.result import ScoreError
from ..grounding.check import Checking, Outcome, Source, Verdict, checking, drive
from ..grounding.claims import claims_of
from ..grounding.passages import Text, passages_of
from ..grounding.request import Request
from ..grounding.response import response_of
from ..grounding.search import Index
from ..judging.panel import PanelSlot
from ..registry import build, find, register

__all__ = ["AskingChecker", "Checker", "PairChecker", "Unjudged", "Verdict", "checker_of", "checking_of", "register"]

UNHELPFUL = {"code": "helpfulness_needs_judge", "message": "only a judge model scores helpfulness (checker: judge)"}


class Checker:
    """Base of all checkers: of those that weigh pairs, and of those that ask judges."""


class PairChecker(Checker, ABC):
    """Base of checkers that weigh pairs of a claim and a text."""

    @abstractmethod
    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """One verdict for each pair of a claim and a text.

        Args:
            pairs: One or more; those of one claim follow each other.
        """

    def check(
        self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en"
    ) -> list[dict[str, Json] | RowError]:
        """The response to each request, as the API's JSON, or why there is none; all claims are weighed together.

        Args:
            requests: Requests within the API's limits.
            corpus: Where the facts are found for all requests, instead of in themselves.
            language: Code of the language whose abbreviations do not end sentences.
        """
        outcomes = drive([checking_of(request, corpus, language) for request in requests], self.weigh)
        return [o if isinstance(o, RowError) else _response(o, r) for o, r in zip(outcomes, requests, strict=True)]


class Unjudged(Exception):
    """Judges gave no verdict on a claim.

    Attributes:
        error: Why.
        open: Whether they were not asked, so that a later start of the run may still do so.
    """

    def __init__(self, error: ScoreError, open: bool) -> None:
        super().__init__(error.message)
        self.error, self.open = error, open


class AskingChecker(Checker, ABC):
    """Base of checkers that put questions to judges, and in a run do not call them themselves.

    Attributes:
        prompts: Names of the prompts they use, the one for helpfulness last.
        speaks: What their questions are, see `JudgedMetric.speaks`.
    """

    prompts: ClassVar[tuple[str, ...]] = ()
    speaks: ClassVar[str] = PROMPTS

    @abstractmethod
    def asking(
        self, request: Request, places: Sequence[PanelSlot], corpus: Source | None = None, language: str = "en"
    ) -> Generator[list[Ask], Sequence[Answer], dict[str, Json]]:
        """Yields questions, is sent their answers in order, and returns the response as the API's JSON.

        Args:
            request: A request within the API's limits.
            places: The places of the panel that votes on each question.
            corpus: Where the facts are found, instead of in the request.
            language: Code of the language whose abbreviations do not end sentences.

        Raises:
            RowError: The request cannot be checked.
            Unjudged: Judges gave no verdict.
        """


def _response(outcome: Outcome, request: Request) -> dict[str, Json]:
    response = response_of(outcome, request.spec)
    return (
        {**response, "helpfulnessScore": None, "helpfulnessError": UNHELPFUL} if request.spec.helpfulness else response
    )


def checking_of(request: Request, corpus: Source | None, language: str) -> Checking:
    """The check that a request asks for, on the corpus where there is one, else on the request's own facts."""
    source = corpus or Index(passages_of(request.facts, language))
    return checking(claims_of(request.answer, language), source, request.spec)


def checker_of(given: Any, where: str = "checker") -> Checker:
    """The checker that a name, `{type: NAME, parameters ...}` or an object stands for.

    Raises:
        ConfigError: There is none of that name, or a parameter does not fit.
    """
    if isinstance(given, Checker):
        return given
    params = {"type": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    name = params.pop("type", None)
    if not isinstance(name, str):
        raise ConfigError(f"found {given!r}", where=where, allowed="a name, or {type: NAME, parameters ...}")
    return build(find("checker", name, where), params, where)
