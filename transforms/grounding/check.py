"""One check of an answer, apart from who weighs: which pairs of claim and text are asked for, and what follows.

`checking` is a generator: it yields lists of pairs, is sent one verdict for each, and returns the outcome. So the same
code serves a checker that answers at once, a model that likes large batches, and judges that are called in the middle
of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from ...schemas.errors import RowError
from ...schemas.values import mean
from .claims import Claim
from .passages import Passage, Text, joined

CANDIDATES = 8
"""Passages that a claim is compared with, at most: the best of a search by its words."""
TOGETHER = 3
"""Passages that are tried together, since several facts may carry a claim."""


class Verdict(NamedTuple):
    """How likely a text entails a claim, and how likely it contradicts it; both in [0, 1]."""

    entailed: float
    contradicted: float


@dataclass(frozen=True, slots=True)
class Spec:
    """What is asked for beside the support score.

    Attributes:
        citation_threshold: Probability of entailment from which a passage is cited, in [0, 1].
        anti_citations: Whether contradicting passages are cited and a contradiction score is given.
        anti_citation_threshold: Probability of contradiction from which a passage is cited against a claim, in [0, 1].
        claim_scores: Whether every claim gets its own score.
        helpfulness: Whether the answer's helpfulness is scored.
    """

    citation_threshold: float = 0.6
    anti_citations: bool = False
    anti_citation_threshold: float = 0.8
    claim_scores: bool = False
    helpfulness: bool = False


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """A claim and what speaks for and against it.

    Attributes:
        claim: The claim.
        score: Probability that the facts entail it, in [0, 1]; `None` for a claim that needs no grounding.
        contradicted: Highest probability that a passage contradicts it, in [0, 1]; `None` likewise.
        cited: The passages that carry it, in their order.
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
        support: Mean score of the claims that need grounding, in [0, 1]; 1.0 where none does.
        contradiction: Mean of their contradictions, in [0, 1]; 0.0 where none needs grounding.
        claims: Every claim of the answer, in order.
    """

    support: float
    contradiction: float
    claims: tuple[ClaimResult, ...]


Pair: TypeAlias = tuple[Text, Text]
"""A claim and a text."""
Checking: TypeAlias = Generator[list[Pair], list[Verdict], Outcome]


class Source(Protocol):
    """Where the passages that claims are compared with come from: the facts of a request, or a corpus."""

    def search(self, claims: Sequence[Text], most: int) -> list[list[Passage]]:
        """The best passages for each claim, at most so many, best first.

        Raises:
            RowError: They cannot be found.
        """
        ...


def drive(checks: Sequence[Checking], weigh: Callable[[list[Pair]], Sequence[Verdict]]) -> list[Outcome | RowError]:
    """Runs checks to their end, the pairs of all of them weighed together; a check that fails gives its error."""
    outcomes: dict[int, Outcome | RowError] = {}
    waiting: dict[int, list[Pair]] = {}
    answers: dict[int, list[Verdict] | None] = dict.fromkeys(range(len(checks)))
    while answers:
        for i, answer in answers.items():
            try:
                waiting[i] = checks[i].send(answer)  # type: ignore[arg-type]  (None starts a generator)
            except StopIteration as done:
                outcomes[i] = done.value
            except RowError as error:
                outcomes[i] = error
        verdicts = iter(weigh([pair for pairs in waiting.values() for pair in pairs]) if waiting else ())
        answers = {i: [next(verdicts) for _ in pairs] for i, pairs in waiting.items()}
        waiting = {}
    return [outcomes[i] for i in range(len(checks))]


def checking(claims: Sequence[Claim], source: Source, spec: Spec) -> Checking:
    """Checks the claims of one answer.

    A claim's score is the highest probability of entailment by one passage or by the best three together. A passage is
    cited iff its own probability reaches the threshold, or where none does, it is one of the passages that reach it
    together: of two, if two suffice, else of all three.

    Args:
        claims: The claims of the answer.
        source: Where the passages come from.
        spec: The thresholds.
    """
    weighings = [_Weighing(c, Text([c.text])) for c in claims if c.asserts]
    found = source.search([w.text for w in weighings], CANDIDATES)
    for weighing, passages in zip(weighings, found, strict=True):
        weighing.passages = passages
    for ask in (_Weighing.alone, _Weighing.together, lambda w: w.in_twos(spec.citation_threshold)):
        asked = [(w, texts) for w in weighings if (texts := ask(w))]
        pairs = [(w.text, text) for w, texts in asked for text in texts]
        verdicts = iter((yield pairs) if pairs else ())
        for weighing, texts in asked:
            weighing.rounds.append([next(verdicts) for _ in texts])
    results = {id(w.claim): w.result(spec) for w in weighings}
    return _outcome([results.get(id(c), ClaimResult(c)) for c in claims])


def _outcome(results: Sequence[ClaimResult]) -> Outcome:
    scores = [r.score for r in results if r.score is not None]
    against = [r.contradicted for r in results if r.contradicted is not None]
    support = mean(scores) if scores else 1.0
    return Outcome(support, mean(against) if against else 0.0, tuple(results))


@dataclass(slots=True)
class _Weighing:
    """A claim on its way through the rounds."""

    claim: Claim
    text: Text
    passages: list[Passage] = field(default_factory=list)
    rounds: list[list[Verdict]] = field(default_factory=list)

    def alone(self) -> list[Text]:
        return list(self.passages)

    def together(self) -> list[Text]:
        """The best passages as one text, unless there is but one or the claim is certain already."""
        best = self._best()
        return [joined(best)] if len(best) > 1 and self._most() < 1 else []

    def in_twos(self, threshold: float) -> list[Text]:
        """Any two of three passages that carry the claim together, where none does alone."""
        best = self._best()
        carried = len(self.rounds) > 1 and self.rounds[1][0].entailed >= threshold > self._most()
        return [joined(two) for two in _twos(best)] if carried and len(best) > 2 else []

    def result(self, spec: Spec) -> ClaimResult:
        alone = self.rounds[0] if self.rounds else []
        together = self.rounds[1][0].entailed if len(self.rounds) > 1 else 0.0
        contrary = [v.contradicted for v in alone]
        anti = [p for p, c in zip(self.passages, contrary, strict=True) if c >= spec.anti_citation_threshold]
        return ClaimResult(
            self.claim,
            max(self._most(), together),
            max(contrary, default=0.0),
            _ordered(self._cited(spec.citation_threshold, together)),
            _ordered(anti) if spec.anti_citations else (),
        )

    def _cited(self, threshold: float, together: float) -> list[Passage]:
        alone = self.rounds[0] if self.rounds else []
        sufficient = [p for p, v in zip(self.passages, alone, strict=True) if v.entailed >= threshold]
        if sufficient or together < threshold:
            return sufficient
        if len(self.rounds) > 2:
            value, pair = max(zip([v.entailed for v in self.rounds[2]], _twos(self._best()), strict=True), key=_first)
            if value >= threshold:
                return pair
        return self._best()

    def _best(self) -> list[Passage]:
        """The passages that carry most of the claim, of those that carry any of it."""
        order = sorted(range(len(self.passages)), key=lambda i: (-self.rounds[0][i].entailed, self.passages[i].place))
        return [self.passages[i] for i in order[:TOGETHER] if self.rounds[0][i].entailed > 0]

    def _most(self) -> float:
        return max((v.entailed for v in self.rounds[0]), default=0.0) if self.rounds else 0.0


def _first(pair: tuple[float, list[Passage]]) -> float:
    return pair[0]


def _twos(three: Sequence[Passage]) -> list[list[Passage]]:
    return [[three[0], three[1]], [three[0], three[2]], [three[1], three[2]]]


def _ordered(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    return tuple(sorted(passages, key=lambda p: p.place))
