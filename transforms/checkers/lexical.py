"""The checker `lexical`: grounding by words alone, without a model and with the same result on every machine.

A clause of an answer is compared with the clauses of a text one by one. The support by a clause is a weighted mean of
two shares of the words: those that the clause has too, and those that it has in the same order (content words weigh
four times as much as function words). Support is then reduced for whatever the clause lacks and for typical errors:
another word in place of one, a negation or a quantifier in only one of the two, roles exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..grounding.passages import Text
from ..grounding.words import Sentence, split_words
from ._comparison import Comparison, Side, compare
from .base import PairChecker, Verdict, register

_LEAST = 0.3
"""Share of a claim's words below which a text is not analyzed further."""
_NEAREST = 2
"""Number of sentences of a text that a claim is compared with: those that share most words with it."""
_SUPPORTED = 0.6
"""Support from which nothing in the same text is taken for a contradiction: words cannot tell two events apart."""
_OPENING = re.compile(
    r"\s*(?:(?:(?:yes|yeah|yep|yup|oh|well|right|ok|okay|sure|true|exactly|definitely|absolutely|indeed|actually)\b"
    r"|no\b(?=\s*[,.!]|\s+but\b)|(?:but|and|so)\b)[\s,.!]*)+",
    re.IGNORECASE,
)
"""Words at the start of an answer that address the other speaker and assert nothing."""


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
            side = _make_side(claim)
            own: list[Verdict] = []
            while at < len(pairs) and pairs[at][0] is claim:
                own.append(_weigh(side, pairs[at][1]))
                at += 1
            doubt = 1 - max(v.entailed for v in own)
            most = doubt if doubt <= 1 - _SUPPORTED else 1.0
            found += [Verdict(v.entailed, min(v.contradicted, most)) for v in own]
        return found


def _make_side(claim: Text) -> Side:
    rest = claim.text[match.end() :] if (match := _OPENING.match(claim.text)) else claim.text
    return Side(split_words(rest) or claim.words, claim.text.isupper())


def _weigh(claim: Side, premise: Text) -> Verdict:
    if all(w.weight < 1 for w in claim.words):  # "yes, he is": there is no content word to compare
        return Verdict(0.0, 0.0)
    known = premise.stems
    coverage = sum(w.weight for w in claim.words if w.stem in known) / claim.weight
    if coverage < _LEAST:
        return Verdict(coverage / 2, 0.0)
    found = [compare(claim, Side(words), known) for words in _find_nearest(claim, premise)]
    best = max(found, key=lambda c: c.support)
    if best.support >= _SUPPORTED:
        return Verdict(min(best.support, 1.0), 0.0)
    return Verdict(best.support, max(found, key=_closeness).contradiction)


def _closeness(comparison: Comparison) -> tuple[float, float]:
    return comparison.coverage, comparison.contradiction


def _find_nearest(claim: Side, premise: Text) -> list[Sentence]:
    """Returns the clauses of the sentences with the largest weight of the claim's words.

    A sentence of several clauses counts as a whole too, if the claim has all its names and numbers: there is no other
    that the claim could have mistaken for its own.
    """
    order = range(len(premise.sentences))
    if len(order) > _NEAREST:
        weight, stems = claim.weights.__getitem__, claim.stems
        shares = [sum(map(weight, stems.intersection([w.stem for w in s]))) for s in premise.sentences]
        order = sorted(order, key=lambda i: (-shares[i], i))[:_NEAREST]
    found: list[Sentence] = []
    for place in order:
        clauses = premise.clauses(place)
        found += clauses
        if len(clauses) > 1 and not any(
            w.kind in ("name", "number") and w.stem not in claim.stems for w in premise.sentences[place][1:]
        ):
            found.append(premise.sentences[place])
    return found
