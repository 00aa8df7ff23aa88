"""The check of an answer, independent of the checker: which pairs of claim and text to compare, and the outcome.

`check_claims` is a generator: it yields lists of pairs, receives one verdict for each, and returns the outcome. So the
same code serves a checker that answers at once, a model that prefers large batches, and judges within a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
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
        score: Probability that the facts entail all of it, in [0, 1]; `None` for a claim that needs no grounding.
        contradicted: Highest probability that a passage contradicts part of it, in [0, 1]; `None` likewise.
        cited: The passages that support it, in their order; none if part of it is not supported.
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
        support: Mean score of the claims that need grounding, in [0, 1]; `None` if none does: nothing was checked.
        contradiction: Mean of their contradictions, in [0, 1]; 0.0 if none needs grounding.
        claims: Every claim of the answer, in order.
    """

    support: float | None
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


def check_claims(claims: Sequence[Claim], source: Source, spec: Spec, by_clause: bool = True) -> Checking:
    """Checks the claims of one answer.

    A clause's score is the highest probability of entailment by one passage or by the best three as one text, and a
    claim's score is that of its weakest clause. A passage is cited if its strength reaches the threshold for a clause
    of a claim whose score reaches it. The strength is the highest probability of a text that the passage is needed in:
    its own, or that of two or three passages where it is lower without the passage. It does not depend on the
    threshold, so a higher threshold never cites more.

    Args:
        claims: The claims of the answer.
        source: Where the passages come from.
        spec: The thresholds.
        by_clause: False for a checker that itself decides whether a text supports all of a claim.
    """
    weighings = [
        _Weighing(c, Text([clause])) for c in claims if c.asserts for clause in (c.clauses if by_clause else (c.text,))
    ]
    found = source.search([w.text for w in weighings], CANDIDATES)
    for weighing, passages in zip(weighings, found, strict=True):
        weighing.passages = passages
    for ask in (_Weighing.try_alone, _Weighing.try_together, lambda w: w.try_in_twos(spec.citation_threshold)):
        asked = [(w, texts) for w in weighings if (texts := ask(w))]
        pairs = [(w.text, text) for w, texts in asked for text in texts]
        verdicts = iter((yield pairs) if pairs else ())
        for weighing, texts in asked:
            weighing.rounds.append([next(verdicts) for _ in texts])
    results = {id(own[0].claim): _make_result(own, spec) for own in _group_by_claim(weighings)}
    return _make_outcome([results.get(id(c), ClaimResult(c)) for c in claims])


def _group_by_claim(weighings: Sequence[_Weighing]) -> list[list[_Weighing]]:
    return [list(own) for _, own in groupby(weighings, key=lambda w: id(w.claim))]


def _make_result(clauses: Sequence[_Weighing], spec: Spec) -> ClaimResult:
    score = min(clause.score() for clause in clauses)
    supported = score >= spec.citation_threshold
    cited = [p for c in clauses for p in c.list_cited(spec.citation_threshold)] if supported else []
    anti = [p for c in clauses for p in c.list_anti_cited(spec.anti_citation_threshold)] if spec.anti_citations else []
    against = max(clause.contradicted() for clause in clauses)
    return ClaimResult(clauses[0].claim, score, against, _sort_by_place(cited), _sort_by_place(anti))


def _make_outcome(results: Sequence[ClaimResult]) -> Outcome:
    scores = [r.score for r in results if r.score is not None]
    against = [r.contradicted for r in results if r.contradicted is not None]
    return Outcome(mean(scores) if scores else None, mean(against) if against else 0.0, tuple(results))


@dataclass(slots=True)
class _Weighing:
    """A clause with its passages and the verdicts of each round: alone, the best three together, in twos."""

    claim: Claim
    text: Text
    passages: list[Passage] = field(default_factory=list)
    rounds: list[list[Verdict]] = field(default_factory=list)

    def try_alone(self) -> list[Text]:
        return list(self.passages)

    def try_together(self) -> list[Text]:
        """Returns the best passages as one text; nothing if there is only one or the clause is already certain."""
        best = self._best()
        return [join_passages(best)] if len(best) > 1 and self._most() < 1 else []

    def try_in_twos(self, threshold: float) -> list[Text]:
        """Returns each two of the best three passages, if the three support the clause better than any does alone."""
        best = self._best()
        carried = self._together() >= threshold and self._together() > self._most()
        return [join_passages(two) for two in _list_pairs(best)] if carried and len(best) > 2 else []

    def score(self) -> float:
        return max(self._most(), self._together())

    def contradicted(self) -> float:
        """Returns the highest probability of contradiction, unless the passages rather entail the clause together."""
        most = max((v.contradicted for v in self._alone()), default=0.0)
        return most if most > self._together() else min(most, 1 - self._together())

    def list_anti_cited(self, threshold: float) -> list[Passage]:
        anti = [p for p, v in zip(self.passages, self._alone(), strict=True) if v.contradicted >= threshold]
        return anti if self.contradicted() >= threshold else []

    def list_cited(self, threshold: float) -> list[Passage]:
        together, best = self._together(), self._best()
        strength = {p.place: v.entailed for p, v in zip(self.passages, self._alone(), strict=True)}
        if together > self._most():
            twos = self.rounds[2] if len(self.rounds) > 2 else []
            texts = [(two, min(v.entailed, together)) for two, v in zip(_list_pairs(best), twos, strict=False)]
            self._raise_strengths(strength, [*texts, (best, together)])
        return [p for p in self.passages if strength[p.place] >= threshold]

    def _raise_strengths(self, strength: dict[int, float], texts: Sequence[tuple[list[Passage], float]]) -> None:
        """Raises the strengths of passages that a text of several needs, given each text's probability."""
        known = {frozenset([place]): value for place, value in strength.items()}
        for passages, value in texts:
            places = frozenset(p.place for p in passages)
            known[places] = value
            for place in places:
                if value > known.get(places - {place}, 0.0):
                    strength[place] = max(strength[place], value)

    def _best(self) -> list[Passage]:
        """Returns the passages with the highest probabilities of entailment, without those of probability 0."""
        alone = self._alone()
        order = sorted(range(len(alone)), key=lambda i: (-alone[i].entailed, self.passages[i].place))
        return [self.passages[i] for i in order[:TOGETHER] if alone[i].entailed > 0]

    def _alone(self) -> list[Verdict]:
        return self.rounds[0] if self.rounds else []

    def _most(self) -> float:
        return max((v.entailed for v in self._alone()), default=0.0)

    def _together(self) -> float:
        return self.rounds[1][0].entailed if len(self.rounds) > 1 else 0.0


def _list_pairs(three: Sequence[Passage]) -> list[list[Passage]]:
    return [[three[0], three[1]], [three[0], three[2]], [three[1], three[2]]] if len(three) > 2 else []


def _sort_by_place(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    return tuple(sorted({p.place: p for p in passages}.values(), key=lambda p: p.place))
