"""A clause as one side of a comparison: its words, and what is asked of them."""

from __future__ import annotations

from collections.abc import Collection

from .once import Once
from .quantifiers import DOUBTS, MARKS, Quantifier, find_doubts, find_quantifiers
from .words import Sentence, Word

_PREPOSITION_WORDS = "from to in on at by for with of before after into over under through above below until since"
_PREPOSITIONS = frozenset(_PREPOSITION_WORDS.split())
_ARTICLES = frozenset(["the", "a", "an"])
BE = frozenset(["is", "are", "was", "were", "be", "been", "being"])
"""The forms of "be"."""


class Side:
    """The words of a clause, and what comparisons ask of them; each is computed once.

    Attributes:
        words: The words.
        shouted: True if all letters are capitals, which then mark no names.
    """

    def __init__(self, found: Sentence, shouted: bool = False) -> None:
        self.words = found
        self.shouted = shouted

    @Once
    def weight(self) -> float:
        return sum(w.weight for w in self.words)

    @Once
    def stems(self) -> frozenset[str]:
        return frozenset(self.order)

    @Once
    def weights(self) -> dict[str, float]:
        return {w.stem: w.weight for w in self.words}

    @Once
    def order(self) -> list[str]:
        return [w.stem for w in self.words]

    @Once
    def contents(self) -> list[Word]:
        """The content words."""
        return [w for w in self.words if w.weight == 1]

    @Once
    def content(self) -> list[str]:
        """The stems of the content words."""
        return [w.stem for w in self.contents]

    @Once
    def light(self) -> list[str]:
        """The stems of the other words."""
        return [w.stem for w in self.words if w.weight < 1]

    def weigh(self, stems: Collection[str]) -> float:
        """Returns the weight of the words with one of these stems."""
        return sum([w.weight for w in self.words if w.stem in stems])

    @Once
    def negations(self) -> int:
        return sum(w.kind == "negation" for w in self.words)

    @Once
    def quantifiers(self) -> frozenset[Quantifier]:
        return frozenset() if MARKS.isdisjoint(self.stems) else find_quantifiers(self.words)

    @Once
    def doubts(self) -> frozenset[str]:
        return frozenset() if DOUBTS.isdisjoint(self.stems) else find_doubts(self.words)

    @Once
    def is_passive(self) -> bool:
        if "by" not in self.stems:
            return False
        before = self.order[: self.order.index("by")]
        return not BE.isdisjoint(before)

    @Once
    def needed(self) -> list[Word]:
        """The numbers and names. Capitals do not mark a name at the start of a sentence or in a shouted one."""
        later = not self.shouted and len(self.words) > 1
        return [
            w
            for i, w in enumerate(self.words)
            if w.kind == "number" or (w.kind == "name" and later and (i > 0 or self.words[1].kind == "name"))
        ]

    @Once
    def places(self) -> dict[str, int]:
        """The positions of the content words that occur once."""
        found: dict[str, int] = {}
        for i, word in enumerate(self.words):
            if word.weight == 1:
                found[word.stem] = -1 if word.stem in found else i
        return {stem: i for stem, i in found.items() if i >= 0}

    @Once
    def prepositions(self) -> dict[str, str]:
        """The preposition before each content word that occurs once, if there is one."""
        found: dict[str, str] = {}
        for stem, i in self.places.items():
            before = i - 1 - (i > 0 and self.order[i - 1] in _ARTICLES)
            if before >= 0 and self.order[before] in _PREPOSITIONS:
                found[stem] = self.order[before]
        return found
