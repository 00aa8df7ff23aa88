"""Clipped n-gram matches: for each row, how many n-grams of the response the reference has too, counted at most as
often as in either. ROUGE-N and BLEU are quotients of these numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Tokens, changes


def clipped(candidate: Sequence[Hashable], reference: Sequence[Hashable], n: int) -> int:
    """Clipped matches of one pair of token lists, n >= 1."""
    if n > 1:
        candidate = list(zip(*(candidate[i:] for i in range(n)), strict=False))
        reference = list(zip(*(reference[i:] for i in range(n)), strict=False))
    return (Counter(candidate) & Counter(reference)).total()


@dataclass(frozen=True, slots=True)
class _Shared:
    """N-grams of one order that both sides of their row have.

    Attributes:
        places: Positions of all counted n-grams, equal ones together.
        first, sizes: Where in `places` those of each shared n-gram begin, and how many they are.
    """

    places: np.ndarray
    first: np.ndarray
    sizes: np.ndarray


class Grams:
    """Clipped matches of all rows of a chunk, order by order, each from the one before.

    An n-gram that only one side of its row has is given up at once, since no longer one that contains it can match.
    Those that both sides have get numbers, dense over the chunk and ascending by row, so that a row's n-grams of order
    n + 1 are pairs of two numbers and always fit into a sort key of 63 bits together with their position.

    Attributes:
        tokens: The tokens.
        row: int32, row of each token.
        shared: int32, for each token the number of its unigram, -1 where only one side of the row has it.
        group_rows: Row of each numbered unigram, ascending.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self._text = tokens.text_of_token().astype(np.int32)
        self.row = self._text.copy()
        self.row[tokens.half :] -= tokens.rows
        self._bits = max(len(tokens.ids), 1).bit_length()
        self._matches: list[np.ndarray] = []
        size = int(tokens.ids.max(initial=0)) + 1
        keys = self.row.astype(np.int64)
        keys *= size
        keys += tokens.ids
        self._last = self._count(keys, np.arange(len(tokens.ids)))
        self.shared, self.group_rows = self._numbers(), self.row[self._last.places[self._last.first]]

    def matches(self, n: int) -> np.ndarray:
        """int64, clipped matches of order n >= 1 of each row."""
        while len(self._matches) < n:
            self._extend()
        return self._matches[n - 1]

    def _extend(self) -> None:
        """Counts n-grams of the next order: those whose first n tokens are shared, and whose last one is."""
        n, single = len(self._matches), self.shared
        last = self._numbers() if n > 1 else single
        reach = max(len(single) - n, 0)
        at = np.flatnonzero((last[:reach] | last[1 : reach + 1] | single[n:]) >= 0)
        at = at[self._text[at] == self._text[at + n]]
        keys = last[at].astype(np.int64)
        keys *= len(self.group_rows) + 1
        keys += single[at + n]
        self._last = self._count(keys, at)

    def _count(self, keys: np.ndarray, at: np.ndarray) -> _Shared:
        """Counts the n-grams with these keys at these positions; gives those that both sides have."""
        keys <<= self._bits
        keys |= at
        keys.sort()
        places = (keys & ((1 << self._bits) - 1)).astype(np.int32)
        keys >>= self._bits
        edge = changes(keys)
        first, last = edge[:-1], edge[1:] - 1
        half = self.tokens.half
        shared = np.flatnonzero((places[first] < half) & (places[last] >= half))
        first, last = first[shared], last[shared]
        candidates = np.cumsum(places < half, dtype=np.int32)
        ours, sizes = candidates[last] - candidates[first] + 1, last - first + 1
        least = np.minimum(ours, sizes - ours)
        self._matches.append(np.bincount(self.row[places[first]], least, self.tokens.rows).astype(np.int64))
        return _Shared(places, first, sizes)

    def _numbers(self) -> np.ndarray:
        """int32, for each token the number of the last order's n-gram that begins there, or -1."""
        places, first, sizes = self._last.places, self._last.first, self._last.sizes
        numbers = np.full(len(self.tokens.ids), -1, np.int32)
        ends = np.cumsum(sizes)
        members = np.arange(int(sizes.sum())) + np.repeat(first - ends + sizes, sizes)
        numbers[places[members]] = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return numbers
