"""Clipped n-gram matches: for each row, how many n-grams of the response the reference has too, counted at most as
often as in either. ROUGE-N and BLEU are quotients of these numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from .arrays import Tokens, changes


def clipped(candidate: Sequence[Hashable], reference: Sequence[Hashable], n: int) -> int:
    """Clipped matches of one pair of token lists, n >= 1."""
    if n > 1:
        candidate = list(zip(*(candidate[i:] for i in range(n)), strict=False))
        reference = list(zip(*(reference[i:] for i in range(n)), strict=False))
    return (Counter(candidate) & Counter(reference)).total()


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
        self.shared, self.group_rows = self._number(keys, np.arange(len(tokens.ids)))
        self._last = self.shared

    def matches(self, n: int) -> np.ndarray:
        """int64, clipped matches of order n >= 1 of each row."""
        while len(self._matches) < n:
            self._extend()
        return self._matches[n - 1]

    def _extend(self) -> None:
        """Counts n-grams of the next order: those whose first n tokens are shared, and whose last one is."""
        n, last, single = len(self._matches), self._last, self.shared
        reach = max(len(single) - n, 0)
        at = np.flatnonzero((last[:reach] | last[1 : reach + 1] | single[n:]) >= 0)
        at = at[self._text[at] == self._text[at + n]]
        keys = last[at].astype(np.int64)
        keys *= len(self.group_rows) + 1
        keys += single[at + n]
        self._last, _ = self._number(keys, at)

    def _number(self, keys: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts the n-grams with these keys at these positions; numbers those that both sides have."""
        rows, half, bits = self.tokens.rows, self.tokens.half, self._bits
        numbers = np.full(len(self.tokens.ids), -1, np.int32)
        if not len(at):
            self._matches.append(np.zeros(rows, np.int64))
            return numbers, np.empty(0, np.int32)
        keys <<= bits
        keys |= at
        keys.sort()
        place = (keys & ((1 << bits) - 1)).astype(np.int32)
        keys >>= bits
        edge = changes(keys)
        first, last = edge[:-1], edge[1:] - 1
        shared = np.flatnonzero((place[first] < half) & (place[last] >= half))
        first, last = first[shared], last[shared]
        candidates = np.cumsum(place < half, dtype=np.int32)
        ours = candidates[last] - candidates[first] + 1
        size = last - first + 1
        group_rows = self.row[place[first]]
        self._matches.append(np.bincount(group_rows, np.minimum(ours, size - ours), rows).astype(np.int64))
        ends = np.cumsum(size)
        members = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - ends + size, size)
        numbers[place[members]] = np.repeat(np.arange(len(size), dtype=np.int32), size)
        return numbers, group_rows
