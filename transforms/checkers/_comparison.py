"""Compares a clause of an answer with a clause of a fact, word by word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from ..grounding.quantifiers import is_stretched, leaves_out_doubt
from ..grounding.side import BE, Side
from ..grounding.words import DATES, FUNCTION_WEIGHT, Sentence, Word

LACKING = 0.55
"""Factor of the support if any content word is lacking: a claim that is supported in part is not grounded."""
MISSING, SWAPPED, NEGATED, EXCHANGED = 0.4, 0.4, 0.3, 0.4
"""Further factors: for each lacking number or name, for other words in place of the claim's, for more negations in one
of the two, for other quantifiers, exchanged roles or doubts that the claim leaves out."""
LOOSE, OTHER = 0.85, 0.5
"""Weights of a contradiction: the text has another name or number, but not at the claim's position; it has another
word of no known kind in place of the claim's, which may mean the same."""
SHORT = {1: 0.75, 2: 0.85}
"""Factors of the support of claims with so few content words, unless the fact says them word for word: they may stand
there by chance."""
UNLINKED = 0.55
"""Further factor if such a claim is "it is ..." and the fact does not say that anything is so."""
_COVERED = 0.6
"""Weight of the words that both have against those in the same order, which paraphrases change."""
_REACH = 3
"""Extra words beyond the claim's ends in which counterparts are searched for in the sentence."""
_FREE_ORDER = "\u0370"
"""First letter of the scripts in whose languages the order of words tells no roles, or words are not told apart."""
_TURNED_PREPOSITIONS = {"before": "after", "above": "below", "over": "under", "from": "to", "until": "since"}
_OPPOSITES = _TURNED_PREPOSITIONS | {b: a for a, b in _TURNED_PREPOSITIONS.items()}
_PRONOUNS = frozenset(["it", "he", "she", "they", "this", "that"])


class Comparison(NamedTuple):
    """The result of a comparison; all in [0, 1].

    Attributes:
        support: Probability that the clause of the fact entails the claim.
        contradiction: Probability that it contradicts the claim.
        coverage: Share of the claim's words in the clause.
        factor: Factor of the support for conflicts and for a claim too short to be certain.
        borrowed: True if the clause itself does not name the claim's subject.
    """

    support: float
    contradiction: float
    coverage: float
    factor: float
    borrowed: bool = False


def compare(claim: Side, fact: Side, context: frozenset[str]) -> Comparison:
    """Compares a clause of an answer with one of a fact.

    Args:
        claim: The clause of the answer.
        fact: The clause of the fact.
        context: The stems of the text that the clause of the fact is part of; they may name its subject.
    """
    pairs = [] if fact.stems.isdisjoint(claim.content) else _find_pairs(claim, fact)
    anchors = [(i, j) for i, j in pairs if claim.words[i].weight == 1]
    if not anchors:
        share = claim.weigh(fact.stems) / claim.weight
        return Comparison(share / 4, 0.0, share, 1.0)
    borrowed = _find_borrowed(claim, fact, anchors, context)
    known = fact.stems | borrowed if borrowed else fact.stems
    lacking = [w for w in claim.contents if w.stem not in known]
    light = [stem for stem in claim.light if stem in known or stem in context]
    covered = len(claim.contents) - len(lacking) + FUNCTION_WEIGHT * len(light)
    in_order = len(anchors) + FUNCTION_WEIGHT * (len(pairs) - len(anchors)) + claim.weigh(borrowed)
    support = (_COVERED * covered + (1 - _COVERED) * min(in_order, covered)) / claim.weight
    clash = _find_clash(claim, fact, anchors, lacking)
    factor = clash.factor * (1.0 if support == 1 else _get_certainty(claim, fact))
    support *= (LACKING if lacking else 1.0) * factor
    support *= MISSING ** len([w for w in claim.needed if w.stem not in known])
    share = _compute_coverage(claim, known, clash.swapped) if clash.weight else 0.0
    contradiction = min(clash.weight * share**2, 1.0)
    return Comparison(support, contradiction, covered / claim.weight, factor, bool(borrowed))


def _get_certainty(claim: Side, fact: Side) -> float:
    size = len(claim.content) + len(claim.needed)  # a name or a number is rarely there by chance
    if size not in SHORT:
        return 1.0
    first = claim.content[0]
    lead = claim.order[: claim.order.index(first)]
    linked = BE.isdisjoint(lead) or _PRONOUNS.isdisjoint(lead) or first not in fact.stems
    told = linked or not BE.isdisjoint(fact.order[: fact.order.index(first)])
    return SHORT[size] * (1.0 if told else UNLINKED)


def _find_pairs(claim: Side, fact: Side) -> list[tuple[int, int]]:
    """Returns index pairs of a longest common subsequence of the stems of claim and fact."""
    blocks = LCSseq.editops(claim.order, fact.order).as_matching_blocks()
    return [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]


def _find_borrowed(
    claim: Side, fact: Side, anchors: Sequence[tuple[int, int]], context: frozenset[str]
) -> frozenset[str]:
    """Returns the stems of the claim's subject that the clause lacks, but the text around it has.

    "It was directed by James Cameron" speaks of the Titanic of the sentence before. A clause with a subject or a name
    of its own speaks of that. What follows a preposition ("On Sundays ...") is no subject.
    """
    before = claim.words[: anchors[0][0]]
    if not before:
        return frozenset()
    subject = before[: next((i for i, w in enumerate(before) if w.stem in BE), len(before))]
    lead = [w for w in subject if w.stem not in fact.stems and w.weight == 1]
    if (
        not lead
        or claim.is_passive != fact.is_passive
        or any(w.kind == "number" or w.stem not in context or _is_adjunct(claim, w) for w in lead)
    ):
        return frozenset()
    agent = fact.order.index("by") if fact.is_passive else len(fact.words)
    rivals = [*fact.words[: anchors[0][1]], *fact.words[agent:]]
    named = any(w.kind == "name" for w in lead)
    free = all(w.weight < 1 or w.stem in claim.stems or w.stem in DATES or (named and w.kind != "name") for w in rivals)
    return frozenset(w.stem for w in lead) if free else frozenset()


def _is_adjunct(claim: Side, word: Word) -> bool:
    return claim.prepositions.get(word.stem, "of") != "of"


class _Clash(NamedTuple):
    """Conflicts between a claim and a clause.

    Attributes:
        swapped: True if the clause has another name or number in place of the claim's.
        factor: Factor of the support, in (0, 1].
        weight: Weight of the contradiction, in [0, 1].
    """

    swapped: bool
    factor: float
    weight: float


def _find_clash(claim: Side, fact: Side, anchors: Sequence[tuple[int, int]], lacking: Sequence[Word]) -> _Clash:
    kinds: set[str] = _find_swapped_kinds(claim, fact, anchors) if not claim.stems <= fact.stems else set()
    swapped = bool(kinds & {"name", "number"})
    negated = claim.negations != fact.negations
    exchanged = is_stretched(claim.quantifiers, fact.quantifiers) or (not lacking and has_exchanged_roles(claim, fact))
    factor = (SWAPPED if kinds else 1.0) * (NEGATED if negated else 1.0) * (EXCHANGED if exchanged else 1.0)
    if swapped or negated or exchanged:
        return _Clash(swapped, factor, 1.0)
    factor *= EXCHANGED if fact.doubts and leaves_out_doubt(claim.doubts, fact.doubts) else 1.0
    needed = [w for w in lacking if w in claim.needed]
    others = {w.kind for w in fact.words if w.stem not in claim.stems} if needed else set[str]()
    loose = any(w.kind in others for w in needed)
    return _Clash(swapped, factor, LOOSE if loose else OTHER if kinds else 0.0)


def _find_swapped_kinds(claim: Side, fact: Side, anchors: Sequence[tuple[int, int]]) -> set[str]:
    """Returns the kinds of content words in whose place the clause has others of the same kind."""
    found: set[str] = set()
    for ours, theirs in _iter_gaps(claim.words, fact.words, anchors):
        own = {w.kind for w in ours if w.weight == 1 and w.stem not in fact.stems} if ours else None
        if own:
            found |= own & {w.kind for w in theirs if w.weight == 1 and w.stem not in claim.stems}
    return found


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


def has_exchanged_roles(claim: Side, fact: Side) -> bool:
    """Returns true if the order of common words tells that who did what to whom, or what is what, is exchanged.

    Three words in reverse order are exchanged around the one between (A sued B, B sued A), unless only one of the two
    clauses is passive; then it is the same order that tells so. A part that has only moved to the front reverses no
    three words. Two words that take each other's preposition (from A to B, from B to A) are exchanged as well, and so
    is one that takes the opposite (before, after), two that change sides around "than", two numbers next to each other
    (3-1, 1-3), and a word that stands by a number that the fact gives to another.
    """
    places = [fact.places[stem] for stem in claim.places if stem in fact.places and stem[0] < _FREE_ORDER]
    turned = _has_falling_three(places)
    if claim.is_passive != fact.is_passive:
        turned = len(places) > 2 and places == sorted(places)
    return (
        turned
        or _has_exchanged_prepositions(claim, fact)
        or _has_exchanged_numbers(claim, fact)
        or _is_compared_backwards(claim, fact)
    )


def _has_falling_three(places: Sequence[int]) -> bool:
    return any(
        any(before > place for before in places[:i]) and any(after < place for after in places[i + 1 :])
        for i, place in enumerate(places)
    )


def _has_exchanged_prepositions(claim: Side, fact: Side) -> bool:
    ours, theirs = claim.prepositions, fact.prepositions
    moved = [stem for stem in ours if theirs.get(stem, ours[stem]) != ours[stem]]
    if any(_OPPOSITES.get(ours[stem]) == theirs[stem] for stem in moved):
        return True
    return any(ours[a] == theirs[b] and ours[b] == theirs[a] for a in moved for b in moved)


def _is_compared_backwards(claim: Side, fact: Side) -> bool:
    """Returns true if a word of each side of "than" is on the other side in the fact."""
    if "than" not in claim.stems or "than" not in fact.stems:
        return False
    ours, theirs = claim.order.index("than"), fact.order.index("than")
    common = [(i, fact.places[stem]) for stem, i in claim.places.items() if stem in fact.places]
    return any(i < ours and j > theirs for i, j in common) and any(i > ours and j < theirs for i, j in common)


def _has_exchanged_numbers(claim: Side, fact: Side) -> bool:
    common = [w for w in claim.words if w.stem in fact.places]
    for a, b in pairwise(common):
        if a.kind == b.kind == "number" and fact.places[a.stem] - fact.places[b.stem] == 1:
            return True
        if b.kind == "number" and _has_nearer_number(claim, fact, a.stem, b.stem):
            return True
    return False


def _has_nearer_number(claim: Side, fact: Side, word: str, number: str) -> bool:
    """Returns true if a number that the claim lacks stands between the word and the number, right after the word."""
    low, high = fact.places[word], fact.places[number]
    if low > high:
        after = fact.words[low + 1 : low + 1 + _REACH]
        return any(w.kind == "number" and w.stem not in claim.stems for w in after)
    between = fact.words[low + 1 : high]
    if any(a.kind == "number" and b.stem == "of" and a.stem not in claim.stems for a, b in pairwise(between)):
        return True  # "won two of its nine"
    while between and (between[-1].weight < 1 or between[-1].kind == "number" or between[-1].stem in DATES):
        between = between[:-1]  # "December 19, 1997" is one date
    return any(w.kind == "number" and w.stem not in claim.stems for w in between)


def _compute_coverage(claim: Side, known: frozenset[str], swapped: bool) -> float:
    """Computes the share of the claim in the clause, ignoring negations and names and numbers that it lacks."""

    total = common = 0.0
    for word in claim.words:
        if word.kind == "negation":
            continue
        if word.stem in known:
            common += word.weight
        elif word.kind == "number" or (word.kind == "name" and (swapped or word in claim.needed)):
            continue
        total += word.weight
    return common / total if total else 0.0
