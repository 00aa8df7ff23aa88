"""The base classes of checkers, which measure how well answers are grounded in facts.

A checker is a frozen dataclass whose fields are the parameters a configuration may set, registered under a name. Most
are pair checkers: for a claim and a text they return the probabilities that the text entails and contradicts the claim.
Which pairs are compared, and how scores follow from the verdicts, is the same for all checkers (grounding/check.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...schemas.errors import ConfigError, RowError
from ...schemas.json import Json
from ...schemas.judging import PROMPTS, Answer, Ask
from ...schemas.result import ScoreError
from ..grounding.check import Checking, Outcome, Source, Verdict, check_claims, drive
from ..grounding.claims import split_claims
from ..grounding.passages import Text, cut_passages
from ..grounding.request import Request
from ..grounding.response import build_response
from ..grounding.search import Index
from ..judging.panel import PanelSlot
from ..registry import build, find, register
from ..runtime.dialogue import Asking

__all__ = ["AskingChecker", "Checker", "PairChecker", "Unjudged", "Verdict", "build_checker", "register", "start_check"]

UNHELPFUL = {"code": "helpfulness_needs_judge", "message": "only a judge model scores helpfulness (checker: judge)"}


class Checker:
    """Base of `PairChecker` and `AskingChecker`."""


class PairChecker(Checker, ABC):
    """Base of checkers that score pairs of a claim and a text."""

    @abstractmethod
    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """Returns one verdict for each pair of a claim and a text.

        Args:
            pairs: One or more pairs; those of one claim are adjacent.
        """

    def check(
        self, requests: Sequence[Request], corpus: Source | None = None, language: str = "en"
    ) -> list[dict[str, Json] | RowError]:
        """Checks requests, weighing the claims of all of them together.

        Args:
            requests: Requests within the API's limits.
            corpus: Source of the facts of all requests; default: each request's own facts.
            language: Code of the language whose abbreviations do not end sentences.

        Returns:
            For each request the response as the API's JSON, or its error.
        """
        outcomes = drive([start_check(request, corpus, language) for request in requests], self.weigh)
        return [o if isinstance(o, RowError) else _make_response(o, r) for o, r in zip(outcomes, requests, strict=True)]


class Unjudged(Exception):
    """Judges gave no verdict on a claim.

    Attributes:
        error: The reason.
        open: True if the judges were not called, so that a later start of the run may still call them.
    """

    def __init__(self, error: ScoreError, open: bool) -> None:
        super().__init__(error.message)
        self.error, self.open = error, open


class AskingChecker(Checker, ABC):
    """Base of checkers whose questions go to judges; in a run, the engine calls the judges.

    Attributes:
        prompts: Names of the prompts, the one for helpfulness last.
        speaks: Kind of their questions, see `JudgedMetric.speaks`.
    """

    prompts: ClassVar[tuple[str, ...]] = ()
    speaks: ClassVar[str] = PROMPTS

    @abstractmethod
    def judge_request(
        self, request: Request, slots: Sequence[PanelSlot], corpus: Source | None = None, language: str = "en"
    ) -> Asking[Ask, Answer, dict[str, Json]]:
        """Yields questions, receives their answers in order, and returns the response as the API's JSON.

        Args:
            request: A request within the API's limits.
            slots: The slots of the panel that votes on each question.
            corpus: Source of the facts; default: the request's own facts.
            language: Code of the language whose abbreviations do not end sentences.

        Raises:
            RowError: The request cannot be checked.
            Unjudged: Judges gave no verdict.
        """


def _make_response(outcome: Outcome, request: Request) -> dict[str, Json]:
    response = build_response(outcome, request.spec)
    return (
        {**response, "helpfulnessScore": None, "helpfulnessError": UNHELPFUL} if request.spec.helpfulness else response
    )


def start_check(request: Request, corpus: Source | None, language: str, by_clause: bool = True) -> Checking:
    """Starts the check of a request on the corpus, or on the request's own facts if there is none."""
    source = corpus or Index(cut_passages(request.facts, language))
    return check_claims(split_claims(request.answer, language), source, request.spec, by_clause)


def build_checker(given: Any, where: str = "checker") -> Checker:
    """Builds a checker from a name or `{type: NAME, parameters ...}`; a checker object is returned unchanged.

    Raises:
        ConfigError: There is no checker of that name, or a parameter is invalid.
    """
    if isinstance(given, Checker):
        return given
    params = {"type": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    name = params.pop("type", None)
    if not isinstance(name, str):
        raise ConfigError(f"found {given!r}", where=where, allowed="a name, or {type: NAME, parameters ...}")
    return build(find("checker", name, where), params, where)
