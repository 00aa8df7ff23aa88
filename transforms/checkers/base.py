"""What a checker is: it tells how far answers are grounded in facts.

A checker is a frozen dataclass whose fields are the parameters a configuration may set, registered under a name. Most
are pair checkers: they say of pairs of a claim and a text how likely the text entails, and contradicts, the claim. Which
pairs are asked for, and what becomes of the verdicts, is the same for all of them (grounding/check.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ...schemas.errors import RowError
from ...schemas.instance import Json
from ..grounding.check import Checking, Source, Verdict, checking, drive
from ..grounding.claims import claims_of
from ..grounding.passages import Text, passages_of
from ..grounding.request import Request
from ..grounding.response import response_of
from ..grounding.search import Index
from ..registry import register

__all__ = ["Checker", "PairChecker", "Verdict", "checking_of", "register"]

UNHELPFUL = {"code": "helpfulness_needs_judge", "message": "only a judge model scores helpfulness (checker: judge)"}


class Checker(ABC):
    """Base of all checkers."""

    @abstractmethod
    def check(self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en") -> list[Json]:
        """The response to each request, as the API's JSON.

        Args:
            requests: Requests within the API's limits.
            corpus: Where the facts are found for requests that bring none.
            language: Code of the language whose abbreviations do not end sentences.

        Raises:
            RowError: A request asks for what this checker cannot do.
        """


class PairChecker(Checker):
    """Base of checkers that weigh pairs of a claim and a text."""

    @abstractmethod
    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """One verdict for each pair of a claim and a text.

        Args:
            pairs: One or more; those of one claim follow each other.
        """

    def check(self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en") -> list[Json]:
        """The response to each request; the claims of all of them are weighed together."""
        outcomes = drive([checking_of(request, corpus, language) for request in requests], self.weigh)
        return [
            {**response_of(o, r.spec), **({"helpfulnessScore": None, "helpfulnessError": UNHELPFUL} if r.spec.helpfulness else {})}
            for o, r in zip(outcomes, requests, strict=True)
        ]


def checking_of(request: Request, corpus: Source | None, language: str) -> Checking:
    """The check that a request asks for.

    Raises:
        RowError: The request names a search engine, and no corpus stands for it.
    """
    if request.search_source is not None and corpus is None:
        raise RowError("unknown_search_source", f"groundingSource {request.search_source!r} is not searched here")
    source = corpus or Index(passages_of(request.facts, language))
    return checking(claims_of(request.answer, language), source, request.spec)
