"""The checker `lexical`: grounding by words alone, without a model and with the same result on every machine.

A clause of an answer is compared with the clauses of a text one by one. The support by a clause is a weighted mean of
two shares of the words: those that the clause has too, and those that it has in the same order (content words weigh
four times as much as function words). Support is then reduced for whatever the clause lacks and for typical errors:
another word in place of one, a negation or a quantifier in only one of the two, roles exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rapidfuzz.distance import LCSseq

from ..grounding.passages import Piece, Text
from ..grounding.side import Side
from ._comparison import MISSING, NEGATED, Comparison, compare
from .base import PairChecker, Verdict, register

Part = TypeVar("Part", Piece, Side)

_LEAST = 0.35
"""Share of a claim's words below which a text is not analyzed further."""
_NEAREST = 2
"""Number of sentences of a text that a claim is compared with: those that share most words with it."""
_NEAREST_CLAUSES = 4
"""Number of clauses of these sentences."""
_SUPPORTED = 0.6
"""Support from which nothing in the same text is taken for a contradiction: words cannot tell two events apart."""
_CONTRADICTED = 0.8
"""Contradiction by the nearest clause from which another clause that is merely like the claim counts little."""
_UNSUPPORTED = 0.59
"""Highest support of a claim that no single clause of the text supports."""


@register("checker", "lexical")
@dataclass(frozen=True)
class Lexical(PairChecker):
    """Compares the words of claims and facts; mismatched words, numbers, dates, names and negations lower the score."""

    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """Returns one verdict for each pair.

        What one text supports, another does not contradict to the same degree: two texts often tell of two events.
        """
        found: list[Verdict] = []
        at = 0
        while at < len(pairs):
            claim = pairs[at][0]
            side = Side(claim.words, claim.text.isupper())
            own: list[Verdict] = []
            while at < len(pairs) and pairs[at][0] is claim:
                own.append(_weigh(side, pairs[at][1]))
                at += 1
            doubt = 1 - max(v.entailed for v in own)
            most = doubt if doubt <= 1 - _SUPPORTED else 1.0
            found += [Verdict(v.entailed, min(v.contradicted, most)) for v in own]
        return found


def _weigh(claim: Side, premise: Text) -> Verdict:
    known = premise.stems
    if known.isdisjoint(claim.content):  # "he is" has none to compare
        return Verdict(0.0, 0.0)
    coverage = claim.weigh(known) / claim.weight
    if coverage < _LEAST:
        return Verdict(coverage / 4, 0.0)
    found = _drop_doubtful([compare(claim, clause, known) for clause in _find_nearest(claim, premise)])
    best = max(found, key=lambda c: c.support)
    if best.support >= _SUPPORTED:
        return Verdict(min(best.support, 1.0), 0.0)
    nearest = max(found, key=_closeness)
    factor = NEGATED if nearest.contradiction >= _CONTRADICTED else max(c.factor for c in found)
    return Verdict(_measure_likeness(claim, premise) * factor, nearest.contradiction)


def _drop_doubtful(found: list[Comparison]) -> list[Comparison]:
    """Drops clauses that may speak of the claim's subject if a clause that names it contradicts the claim."""
    named = [c for c in found if not c.borrowed]
    return named if any(c.contradiction >= _CONTRADICTED for c in named) else found


def _measure_likeness(claim: Side, premise: Text) -> float:
    """Returns a score below that of any supported claim, which ranks the others.

    It is the mean share of the claim's words that are in the text, and in the same order. All words weigh alike.
    """
    common = len([stem for stem in claim.order if stem in premise.stems])
    in_order = LCSseq.similarity(claim.order, premise.order)
    lacking = len([w for w in claim.needed if w.stem not in premise.stems])
    return _UNSUPPORTED * MISSING**lacking * (common + in_order) / 2 / len(claim.order)


def _closeness(comparison: Comparison) -> tuple[float, float]:
    return comparison.coverage, comparison.contradiction


def _find_nearest(claim: Side, premise: Text) -> Sequence[Side]:
    """Returns the clauses that share most with the claim, of the sentences that do, in the order of the text."""
    sentences = _pick(claim, premise.pieces, _NEAREST)
    return _pick(claim, [clause for sentence in sentences for clause in sentence.clauses], _NEAREST_CLAUSES)


def _pick(claim: Side, parts: Sequence[Part], most: int) -> Sequence[Part]:
    if len(parts) <= most:
        return parts
    weight = claim.weights.__getitem__
    shares = [sum(map(weight, claim.stems & part.stems)) for part in parts]
    best = sorted(range(len(parts)), key=lambda i: (-shares[i], i))[:most]
    return [parts[i] for i in sorted(best)]
