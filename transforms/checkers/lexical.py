"""The checker `lexical`: grounding by words alone, without a model and with the same result on every machine.

The support of a claim by a text is the mean of two shares of the claim's words: those in the text, and those in the
text in the claim's order (content words weigh four times as much as function words). Support is then reduced for
typical errors: numbers and names that the text lacks, those that the text has others in place of, and a negation in
only one of the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from ..grounding.passages import Text
from ..grounding.words import Sentence, Word, iter_stems, split_words
from .base import PairChecker, Verdict, register

MISSING, SWAPPED, NEGATED = 0.4, 0.4, 0.3
"""Factors of the support: for each missing number or name, for swapped ones, for a negation in only one of the two."""
LOOSE = 0.85
"""Weight of a contradiction if the text has another name or number, but not at the claim's position."""
_LEAST = 0.3
"""Share of a claim's words below which a text is not analyzed further."""
_REACH = 3
"""Extra words beyond the claim's ends in which counterparts are searched for in the sentence."""
_OPENING = re.compile(
    r"\s*(?:(?:(?:yes|yeah|yep|yup|oh|well|right|ok|okay|sure|true|exactly|definitely|absolutely|indeed|actually)\b"
    r"|no\b(?=\s*[,.!]|\s+but\b)|(?:but|and|so)\b)[\s,.!]*)+",
    re.IGNORECASE,
)
"""Words at the start of an answer that address the other speaker and assert nothing."""


@register("checker", "lexical")
@dataclass(frozen=True)
class Lexical(PairChecker):
    """Compares the words of claims and facts; mismatched numbers, dates, names and negations lower the score."""

    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """Returns one verdict for each pair."""
        found: list[Verdict] = []
        last, claim = None, _Claim([])
        for text, premise in pairs:
            if text is not last:
                last, claim = text, _make_claim(text)
            found.append(_weigh(claim, premise))
        return found


class _Claim:
    """A claim prepared for comparisons."""

    def __init__(self, found: Sentence, shouted: bool = False) -> None:
        self.words = found
        self.weight = sum(w.weight for w in found)
        self.stems = frozenset(w.stem for w in found)
        self.weights = {w.stem: w.weight for w in found}
        self.order = [w.stem for w in found]
        self.negated = any(w.kind == "negation" for w in found)
        # capitals do not mark a name at the start of a sentence, or if all letters are capitals
        later = not shouted and len(found) > 1
        self.needed = [
            w
            for i, w in enumerate(found)
            if w.kind == "number" or (w.kind == "name" and later and (i > 0 or found[1].kind == "name"))
        ]


def _make_claim(text: Text) -> _Claim:
    rest = text.text[match.end() :] if (match := _OPENING.match(text.text)) else text.text
    return _Claim(split_words(rest) or text.words, text.text.isupper())


def _weigh(claim: _Claim, premise: Text) -> Verdict:
    if all(w.weight < 1 for w in claim.words):  # "yes, he is": there is no content word to compare
        return Verdict(0.0, 0.0)
    known = premise.stems
    coverage = sum(w.weight for w in claim.words if w.stem in known) / claim.weight
    if coverage < _LEAST:
        return Verdict(coverage / 2, 0.0)
    in_order = sum(claim.words[i].weight for i, _ in _find_anchors(claim, premise.order)) / claim.weight
    support = (coverage + in_order) / 2
    support *= MISSING ** sum(w.stem not in known for w in claim.needed)
    clash = _find_clash(claim, _find_nearest(claim, premise))
    support *= (SWAPPED if clash.swapped else 1.0) * (NEGATED if clash.negated else 1.0)
    return Verdict(min(support, 1.0), min(clash.contradiction, 1.0))


def _find_anchors(claim: _Claim, stems: Sequence[str]) -> list[tuple[int, int]]:
    """Returns index pairs of a longest common subsequence of the stems of a claim and a text."""
    blocks = LCSseq.editops(claim.order, stems).as_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def _find_nearest(claim: _Claim, premise: Text) -> Sentence:
    """Returns the sentence of the text with the largest weight of the claim's words."""
    if len(premise.sentences) == 1:
        return premise.sentences[0]
    weight, stems = claim.weights.__getitem__, claim.stems
    return max(premise.sentences, key=lambda sentence: sum(map(weight, stems.intersection(iter_stems(sentence)))))


class _Clash(NamedTuple):
    """Conflicts between a sentence and a claim.

    Attributes:
        swapped: True if the sentence has another name or number in place of the claim's.
        negated: True if exactly one of them is negated.
        contradiction: Probability of a contradiction, in [0, 1].
    """

    swapped: bool
    negated: bool
    contradiction: float


def _find_clash(claim: _Claim, sentence: Sentence) -> _Clash:
    order = list(iter_stems(sentence))
    anchors = [(i, j) for i, j in _find_anchors(claim, order) if claim.words[i].weight == 1]
    if not anchors:
        return _Clash(False, False, 0.0)
    stems = set(order)
    swapped = any(
        w.stem not in stems and any(o.kind == w.kind and o.stem not in claim.stems for o in others)
        for ours, others in _iter_gaps(claim.words, sentence, anchors)
        for w in ours
        if w.kind in ("name", "number")
    )
    near = sentence[max(anchors[0][1] - 3, 0) : anchors[-1][1] + 2]
    negated = claim.negated != any(w.kind == "negation" for w in near)
    lacking = {w.stem for w in claim.needed if w.stem not in stems}
    kinds = {w.kind for w in sentence if w.stem not in claim.stems}
    loose = any(w.stem in lacking and w.kind in kinds for w in claim.needed)
    weight = 1.0 if swapped or negated else LOOSE if loose else 0.0
    return _Clash(swapped, negated, weight * _compute_coverage(claim, stems, swapped) ** 2)


def _iter_gaps(
    claim: Sentence, sentence: Sentence, anchors: Sequence[tuple[int, int]]
) -> Iterator[tuple[Sentence, Sentence]]:
    """Yields the words between neighbouring anchors, and around the outer ones, in claim and sentence.

    claim:     [before] a1 [between] a2 [after]
    sentence:  [before] a1 [between] a2 [after]

    In the sentence, `before` and `after` are up to `_REACH` words longer than in the claim.
    """
    (i, j), (k, m) = anchors[0], anchors[-1]
    yield claim[:i], sentence[max(j - i - _REACH, 0) : j]
    for (a, b), (c, d) in pairwise(anchors):
        yield claim[a + 1 : c], sentence[b + 1 : d]
    yield claim[k + 1 :], sentence[m + 1 : m + len(claim) - k + _REACH]


def _compute_coverage(claim: _Claim, stems: set[str], swapped: bool) -> float:
    """Computes the share of the claim in the sentence, ignoring negations and names and numbers that it lacks."""

    def is_set_aside(word: Word) -> bool:
        return word.kind == "number" or (word.kind == "name" and (swapped or word in claim.needed))

    rest = [w for w in claim.words if w.kind != "negation" and (w.stem in stems or not is_set_aside(w))]
    total = sum(w.weight for w in rest)
    return sum(w.weight for w in rest if w.stem in stems) / total if total else 0.0
