"""Grounding by the words alone: embedded, needs no model, and tells the same everywhere.

How well a text supports a claim is how many of the claim's words it has (content words count four times as much as
function words), half of that counted only for words that come in the claim's order. What makes claims wrong then counts
against them: numbers and names that the text lacks, those in whose place the text has others, and negations that only
one of the two has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from ..grounding.passages import Text
from ..grounding.words import Sentence, Word, stems_of, words
from .base import PairChecker, Verdict, register

MISSING, SWAPPED, NEGATED = 0.4, 0.4, 0.3
"""What remains of the support for each missing number or name, for swapped ones, for a negation on one side."""
LOOSE = 0.85
"""What a contradiction by a list counts: the text has another name or number, but not in the claim's place."""
_LEAST = 0.3
"""Share of a claim's words below which a text is not looked at more closely."""
_REACH = 3
"""Words beyond the length of the claim's ends among which the sentence's counterparts are looked for."""
_OPENING = re.compile(
    r"\s*(?:(?:(?:yes|yeah|yep|yup|oh|well|right|ok|okay|sure|true|exactly|definitely|absolutely|indeed|actually)\b"
    r"|no\b(?=\s*[,.!]|\s+but\b)|(?:but|and|so)\b)[\s,.!]*)+",
    re.IGNORECASE,
)
"""Words that answer the other speaker and assert nothing themselves."""


@register("checker", "lexical")
@dataclass(frozen=True)
class Lexical(PairChecker):
    """Compares words, with what the facts lack of numbers, dates, names and negations counting against a claim."""

    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """One verdict for each pair."""
        found: list[Verdict] = []
        last, claim = None, _Claim([])
        for text, premise in pairs:
            if text is not last:
                last, claim = text, _claim(text)
            found.append(_weighed(claim, premise))
        return found


class _Claim:
    """A claim as it is compared."""

    def __init__(self, found: Sentence, shouted: bool = False) -> None:
        self.words = found
        self.weight = sum(w.weight for w in found)
        self.stems = frozenset(w.stem for w in found)
        self.weights = {w.stem: w.weight for w in found}
        self.order = [w.stem for w in found]
        self.negated = any(w.kind == "negation" for w in found)
        # a capital at the start, or everywhere, tells nothing
        later = not shouted and len(found) > 1
        self.needed = [
            w
            for i, w in enumerate(found)
            if w.kind == "number" or (w.kind == "name" and later and (i > 0 or found[1].kind == "name"))
        ]


def _claim(text: Text) -> _Claim:
    rest = text.text[match.end() :] if (match := _OPENING.match(text.text)) else text.text
    return _Claim(words(rest) or text.words, text.text.isupper())


def _weighed(claim: _Claim, premise: Text) -> Verdict:
    if all(w.weight < 1 for w in claim.words):  # "yes, he is": words cannot tell what it says
        return Verdict(0.0, 0.0)
    known = premise.stems
    coverage = sum(w.weight for w in claim.words if w.stem in known) / claim.weight
    if coverage < _LEAST:
        return Verdict(coverage / 2, 0.0)
    in_order = sum(claim.words[i].weight for i, _ in _anchors(claim, premise.order)) / claim.weight
    support = (coverage + in_order) / 2
    support *= MISSING ** sum(w.stem not in known for w in claim.needed)
    clash = _clash(claim, _nearest(claim, premise))
    support *= (SWAPPED if clash.swapped else 1.0) * (NEGATED if clash.negated else 1.0)
    return Verdict(min(support, 1.0), min(clash.contradiction, 1.0))


def _anchors(claim: _Claim, stems: Sequence[str]) -> list[tuple[int, int]]:
    """Places of the words that a claim and a text have in the same order, as many as there can be."""
    blocks = LCSseq.editops(claim.order, stems).as_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def _nearest(claim: _Claim, premise: Text) -> Sentence:
    """The sentence of the text that has most of the claim's words."""
    if len(premise.sentences) == 1:
        return premise.sentences[0]
    weight, stems = claim.weights.__getitem__, claim.stems
    return max(premise.sentences, key=lambda sentence: sum(map(weight, stems.intersection(stems_of(sentence)))))


class _Clash(NamedTuple):
    """What in a sentence speaks against a claim.

    Attributes:
        swapped: A name or number of the claim is not in the sentence, which has another one in its place.
        negated: One of them has a negation where the other has none.
        contradiction: In [0, 1].
    """

    swapped: bool
    negated: bool
    contradiction: float


def _clash(claim: _Claim, sentence: Sentence) -> _Clash:
    order = list(stems_of(sentence))
    anchors = [(i, j) for i, j in _anchors(claim, order) if claim.words[i].weight == 1]
    if not anchors:
        return _Clash(False, False, 0.0)
    stems = set(order)
    swapped = any(
        w.stem not in stems and any(o.kind == w.kind and o.stem not in claim.stems for o in others)
        for ours, others in _gaps(claim.words, sentence, anchors)
        for w in ours
        if w.kind in ("name", "number")
    )
    near = sentence[max(anchors[0][1] - 3, 0) : anchors[-1][1] + 2]
    negated = claim.negated != any(w.kind == "negation" for w in near)
    lacking = {w.stem for w in claim.needed if w.stem not in stems}
    kinds = {w.kind for w in sentence if w.stem not in claim.stems}
    loose = any(w.stem in lacking and w.kind in kinds for w in claim.needed)
    weight = 1.0 if swapped or negated else LOOSE if loose else 0.0
    return _Clash(swapped, negated, weight * _rest(claim, stems, swapped) ** 2)


def _gaps(
    claim: Sentence, sentence: Sentence, anchors: Sequence[tuple[int, int]]
) -> Iterator[tuple[Sentence, Sentence]]:
    """What stands between each two anchors in claim and sentence; outside them, as much as the claim has and a bit."""
    (i, j), (k, m) = anchors[0], anchors[-1]
    yield claim[:i], sentence[max(j - i - _REACH, 0) : j]
    for (a, b), (c, d) in pairwise(anchors):
        yield claim[a + 1 : c], sentence[b + 1 : d]
    yield claim[k + 1 :], sentence[m + 1 : m + len(claim) - k + _REACH]


def _rest(claim: _Claim, stems: set[str], swapped: bool) -> float:
    """Share of the claim that the sentence has, beside the names and numbers it lacks and negations."""

    def aside(word: Word) -> bool:
        return word.kind == "number" or (word.kind == "name" and (swapped or word in claim.needed))

    rest = [w for w in claim.words if w.kind != "negation" and (w.stem in stems or not aside(w))]
    total = sum(w.weight for w in rest)
    return sum(w.weight for w in rest if w.stem in stems) / total if total else 0.0
