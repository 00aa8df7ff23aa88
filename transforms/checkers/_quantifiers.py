"""Quantifiers and bounds of a clause: all, most, some, few, at least, at most, except."""

from __future__ import annotations

from itertools import pairwise

from ..grounding.words import Sentence

_GROUPS = {
    "all": "all every each always everyone everything entire",
    "most": "most mostly usually majority",
    "many": "many often frequently numerous",
    "some": "some several sometimes occasionally",
    "few": "few rarely seldom hardly barely",
    "only": "only solely exclusively",
    "except": "except excluding unless",
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
_IMPLIED = {"all": {"most", "many", "some"}, "most": {"many", "some"}, "many": {"some"}, "more": {"least"}}
"""What a quantifier of a fact says of weaker ones too."""
_BOUNDS = frozenset(["least", "up to", "more", "less"])
_REVERSING = frozenset(["few", "except"])
"""Quantifiers that a claim cannot leave out."""


def find_quantifiers(words: Sentence) -> frozenset[str]:
    """Finds the groups of quantifiers that occur in a clause."""
    found = {_SINGLE[w.stem] for w in words if w.stem in _SINGLE}
    for a, b in pairwise(words):
        if (a.stem, b.stem) in _PAIRS:
            found = (found - {"most"} if b.stem == "most" else found) | {_PAIRS[a.stem, b.stem]}
        elif a.stem in _BEFORE_NUMBERS and b.kind == "number":
            found.add(_BEFORE_NUMBERS[a.stem])
    return frozenset(found)


def is_stretched(claim: frozenset[str], fact: frozenset[str]) -> bool:
    """Returns true if a claim's quantifiers say more than the fact's, or leave out what turns them around.

    "At least 30" and "at most 30" both hold of 30, so they conflict only with other bounds.
    """
    implied = fact.union(*(_IMPLIED.get(name, ()) for name in fact))
    more = claim - implied
    if not fact & _BOUNDS:
        more -= {"least", "up to"}
    return bool(more) or bool((fact & _REVERSING) - claim)
