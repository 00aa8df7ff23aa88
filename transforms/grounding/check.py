"""The check of an answer, independent of the checker: which pairs of claim and text to compare, and the outcome.

`check_claims` is a generator: it yields lists of pairs, receives one verdict for each, and returns the outcome. So the
same code serves a checker that answers at once, a model that prefers large batches, and judges within a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from ...schemas.errors import RowError
from ...schemas.values import mean
from ..runtime.dialogue import Asking, play, run_together
from .claims import Claim
from .passages import Passage, Text, join_passages

CANDIDATES = 8
"""Maximum number of passages compared with a claim: the best results of a search for its words."""
TOGETHER = 3
"""Number of passages tried as one text, since a claim may need several facts."""


class Verdict(NamedTuple):
    """The probabilities that a text entails and that it contradicts a claim, both in [0, 1]."""

    entailed: float
    contradicted: float


@dataclass(frozen=True, slots=True)
class Spec:
    """Options of a check.

    Attributes:
        citation_threshold: Minimum probability of entailment for a citation, in [0, 1].
        anti_citations: True to cite contradicting passages and return a contradiction score.
        anti_citation_threshold: Minimum probability of contradiction for an anti-citation, in [0, 1].
        claim_scores: True to return a score per claim.
        helpfulness: True to score the helpfulness of the answer.
    """

    citation_threshold: float = 0.6
    anti_citations: bool = False
    anti_citation_threshold: float = 0.8
    claim_scores: bool = False
    helpfulness: bool = False


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The result of one claim.

    Attributes:
        claim: The claim.
        score: Probability that the facts entail it, in [0, 1]; `None` for a claim that needs no grounding.
        contradicted: Highest probability that a passage contradicts it, in [0, 1]; `None` likewise.
        cited: The passages that support it, in their order.
        anti_cited: The passages that contradict it, in their order.
    """

    claim: Claim
    score: float | None = None
    contradicted: float | None = None
    cited: tuple[Passage, ...] = ()
    anti_cited: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished check.

    Attributes:
        support: Mean score of the claims that need grounding, in [0, 1]; 1.0 if none does.
        contradiction: Mean of their contradictions, in [0, 1]; 0.0 if none needs grounding.
        claims: Every claim of the answer, in order.
    """

    support: float
    contradiction: float
    claims: tuple[ClaimResult, ...]


Pair: TypeAlias = tuple[Text, Text]
"""A claim and a text."""
Checking: TypeAlias = Asking[Pair, Verdict, Outcome]


class Source(Protocol):
    """A source of passages: the facts of a request, or a corpus."""

    def search(self, claims: Sequence[Text], most: int) -> list[list[Passage]]:
        """Finds up to `most` passages for each claim, best first.

        Raises:
            RowError: The search failed.
        """
        ...


def drive(checks: Sequence[Checking], weigh: Callable[[list[Pair]], Sequence[Verdict]]) -> list[Outcome | RowError]:
    """Runs checks to their end, weighing the pairs of all checks in one call; a check that fails returns its error."""
    return play(run_together(list(map(_guard, checks))), weigh)


def _guard(check: Checking) -> Asking[Pair, Verdict, Outcome | RowError]:
    try:
        return (yield from check)
    except RowError as error:
        return error


def check_claims(claims: Sequence[Claim], source: Source, spec: Spec) -> Checking:
    """Checks the claims of one answer.

    A claim's score is the highest probability of entailment by one passage or by the best three as one text. A passage
    is cited if its own probability reaches the threshold. If no passage does, those that reach it as one text are
    cited: two if two suffice, else all three.

    Args:
        claims: The claims of the answer.
        source: Where the passages come from.
        spec: The thresholds.
    """
    weighings = [_Weighing(c, Text([c.text])) for c in claims if c.asserts]
    found = source.search([w.text for w in weighings], CANDIDATES)
    for weighing, passages in zip(weighings, found, strict=True):
        weighing.passages = passages
    for ask in (_Weighing.try_alone, _Weighing.try_together, lambda w: w.try_in_twos(spec.citation_threshold)):
        asked = [(w, texts) for w in weighings if (texts := ask(w))]
        pairs = [(w.text, text) for w, texts in asked for text in texts]
        verdicts = iter((yield pairs) if pairs else ())
        for weighing, texts in asked:
            weighing.rounds.append([next(verdicts) for _ in texts])
    results = {id(w.claim): w.result(spec) for w in weighings}
    return _make_outcome([results.get(id(c), ClaimResult(c)) for c in claims])


def _make_outcome(results: Sequence[ClaimResult]) -> Outcome:
    scores = [r.score for r in results if r.score is not None]
    against = [r.contradicted for r in results if r.contradicted is not None]
    support = mean(scores) if scores else 1.0
    return Outcome(support, mean(against) if against else 0.0, tuple(results))


@dataclass(slots=True)
class _Weighing:
    """A claim with its passages and the verdicts of each round: alone, the best three together, in twos."""

    claim: Claim
    text: Text
    passages: list[Passage] = field(default_factory=list)
    rounds: list[list[Verdict]] = field(default_factory=list)

    def try_alone(self) -> list[Text]:
        return list(self.passages)

    def try_together(self) -> list[Text]:
        """Returns the best passages as one text; nothing if there is only one or the claim is already certain."""
        best = self._best()
        return [join_passages(best)] if len(best) > 1 and self._most() < 1 else []

    def try_in_twos(self, threshold: float) -> list[Text]:
        """Returns each two of the best three passages, if the three support the claim and none does alone."""
        best = self._best()
        carried = len(self.rounds) > 1 and self.rounds[1][0].entailed >= threshold > self._most()
        return [join_passages(two) for two in _list_pairs(best)] if carried and len(best) > 2 else []

    def result(self, spec: Spec) -> ClaimResult:
        alone = self.rounds[0] if self.rounds else []
        together = self.rounds[1][0].entailed if len(self.rounds) > 1 else 0.0
        contrary = [v.contradicted for v in alone]
        anti = [p for p, c in zip(self.passages, contrary, strict=True) if c >= spec.anti_citation_threshold]
        return ClaimResult(
            self.claim,
            max(self._most(), together),
            max(contrary, default=0.0),
            _sort_by_place(self._cited(spec.citation_threshold, together)),
            _sort_by_place(anti) if spec.anti_citations else (),
        )

    def _cited(self, threshold: float, together: float) -> list[Passage]:
        alone = self.rounds[0] if self.rounds else []
        sufficient = [p for p, v in zip(self.passages, alone, strict=True) if v.entailed >= threshold]
        if sufficient or together < threshold:
            return sufficient
        if len(self.rounds) > 2:
            value, pair = max(
                zip([v.entailed for v in self.rounds[2]], _list_pairs(self._best()), strict=True), key=_first
            )
            if value >= threshold:
                return pair
        return self._best()

    def _best(self) -> list[Passage]:
        """Returns the passages with the highest probabilities of entailment, without those of probability 0."""
        order = sorted(range(len(self.passages)), key=lambda i: (-self.rounds[0][i].entailed, self.passages[i].place))
        return [self.passages[i] for i in order[:TOGETHER] if self.rounds[0][i].entailed > 0]

    def _most(self) -> float:
        return max((v.entailed for v in self.rounds[0]), default=0.0) if self.rounds else 0.0


def _first(pair: tuple[float, list[Passage]]) -> float:
    return pair[0]


def _list_pairs(three: Sequence[Passage]) -> list[list[Passage]]:
    return [[three[0], three[1]], [three[0], three[2]], [three[1], three[2]]]


def _sort_by_place(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    return tuple(sorted(passages, key=lambda p: p.place))
