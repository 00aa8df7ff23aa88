"""Quantifiers and bounds of a clause (all, most, some, few, at least, at most, except), and what makes it uncertain."""

from __future__ import annotations

from typing import NamedTuple

from .words import Sentence

_GROUPS = {
    "all": "all every each always everyone everything entire",
    "most": "most mostly usually majority",
    "many": "many often frequently numerous",
    "some": "some several sometimes occasionally",
    "few": "few rarely seldom hardly barely",
    "only": "only solely exclusively",
    "except": "except excluding unless sauf hormis außer salvo excepto tranne",
}
_SINGLE = {word: name for name, words in _GROUPS.items() for word in words.split()}
_PAIRS = {
    ("at", "least"): "least",
    ("at", "most"): "up to",
    ("up", "to"): "up to",
    ("more", "than"): "more",
    ("fewer", "than"): "less",
    ("less", "than"): "less",
}
_BEFORE_NUMBERS = {"over": "more", "above": "more", "exceeding": "more", "under": "less", "below": "less"}
MARKS = frozenset([*_SINGLE, *_BEFORE_NUMBERS, *(first for first, _ in _PAIRS)])
"""Stems without one of which a clause has no quantifier."""
_IMPLIED = {"all": ("most", "many", "some"), "most": ("many", "some"), "many": ("some",), "more": ("least",)}
"""What a quantifier of a fact says of weaker ones too."""
_REVERSING = frozenset(["few", "except"])
"""Quantifiers that a claim cannot leave out."""
_POSSIBLE = frozenset(["may", "might", "perhaps", "maybe", "possibly", "probably", "likely", "allegedly", "supposedly"])
_CONDITIONS = frozenset(["if", "whether", "wenn"])
_ABLE = frozenset(["can", "could"])
"""Words that a claim may have in place of "may"."""
DOUBTS = _POSSIBLE | _CONDITIONS | _ABLE
"""Stems that make a clause uncertain or conditional, or may stand for one that does."""


class Quantifier(NamedTuple):
    """A quantifier.

    Attributes:
        group: Name of its group.
        of: The word that it bounds ("5" of "more than 5"); empty if it is no bound.
    """

    group: str
    of: str = ""


def find_quantifiers(words: Sentence) -> frozenset[Quantifier]:
    """Finds the quantifiers of a clause."""
    stems = [*(w.stem for w in words), ""]
    found: set[Quantifier] = set()
    for i, word in enumerate(words):
        following = words[i + 1] if i + 1 < len(words) else None
        if following and (bound := _PAIRS.get((word.stem, following.stem))):
            found.add(Quantifier(bound, stems[i + 2]))
        elif following and following.kind == "number" and word.stem in _BEFORE_NUMBERS:
            found.add(Quantifier(_BEFORE_NUMBERS[word.stem], following.stem))
        elif word.stem in _SINGLE and not (word.stem == "most" and i and words[i - 1].stem == "at"):
            found.add(Quantifier(_SINGLE[word.stem]))
    return frozenset(found)


def is_stretched(claim: frozenset[Quantifier], fact: frozenset[Quantifier]) -> bool:
    """Returns true if a claim's quantifiers say more than the fact's, or leave out what turns them around.

    "At least 30" and "at most 30" both hold of 30, so they conflict only with other bounds of 30.
    """
    if claim == fact:
        return False
    implied = {*fact, *(Quantifier(weaker, q.of) for q in fact for weaker in _IMPLIED.get(q.group, ()))}
    bounded = {q.of for q in fact if q.of}
    more = {q for q in claim - implied if not (q.group in ("least", "up to") and q.of not in bounded)}
    return bool(more) or any(q.group in _REVERSING and q not in claim for q in fact)


def find_doubts(words: Sentence) -> frozenset[str]:
    """Finds the words that make a clause uncertain or conditional; "May" with a capital is a month."""
    return frozenset(w.stem for w in words if w.stem in DOUBTS and w.kind != "name")


def leaves_out_doubt(claim: frozenset[str], fact: frozenset[str]) -> bool:
    """Returns true if a fact only says what may be, or what is so under a condition, and a claim that it is so.

    Args:
        claim: The doubts of the claim.
        fact: The doubts of the fact.
    """
    possible = not _POSSIBLE.isdisjoint(fact) and (_POSSIBLE | _ABLE).isdisjoint(claim)
    return possible or (not _CONDITIONS.isdisjoint(fact) and _CONDITIONS.isdisjoint(claim))
