"""Clipped n-gram matches: for each row, how many n-grams of the response the reference has too, counted at most as
often as in either. ROUGE-N and BLEU are quotients of these numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np

from .arrays import Tokens


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
        shared: int64, for each token the number of its unigram, -1 where only one side of the row has it.
        group_rows: Row of each numbered unigram, ascending.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self._row = tokens.row_of_token()
        self._text = np.repeat(np.arange(2 * tokens.rows), np.diff(tokens.bounds))
        self._position_bits = max(len(tokens.ids), 1).bit_length()
        self._matches: list[np.ndarray] = []
        size = int(tokens.ids.max(initial=0)) + 1
        self.shared, self.group_rows = self._number(self._row * size + tokens.ids, np.arange(len(tokens.ids)))
        self._last = self.shared

    def matches(self, n: int) -> np.ndarray:
        """int64, clipped matches of order n >= 1 of each row."""
        while len(self._matches) < n:
            self._extend()
        return self._matches[n - 1]

    def _extend(self) -> None:
        n, last, single = len(self._matches), self._last, self.shared
        reach = max(len(single) - n, 0)
        fits = (last[:reach] >= 0) & (single[n:] >= 0) & (self._text[:reach] == self._text[n:])
        at = np.flatnonzero(fits)
        self._last, _ = self._number(last[at] * (len(self.group_rows) + 1) + single[at + n], at)

    def _number(self, keys: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts the n-grams with these keys at these positions; numbers those that both sides have."""
        tokens, bits = self.tokens, self._position_bits
        numbers = np.full(len(tokens.ids), -1)
        if not len(at):
            self._matches.append(np.zeros(tokens.rows, np.int64))
            return numbers, np.empty(0, np.int64)
        order = np.sort(keys << bits | at)
        place = order & ((1 << bits) - 1)
        order >>= bits
        first = np.flatnonzero(np.concatenate(([True], order[1:] != order[:-1])))
        size = np.diff(first, append=len(order))
        candidate = place < tokens.half
        ours = np.add.reduceat(candidate, first, dtype=np.int64)
        shared = (ours > 0) & (ours < size)
        rows = self._row[place[first[shared]]]
        least = np.minimum(ours, size - ours)[shared]
        self._matches.append(np.bincount(rows, least, tokens.rows).astype(np.int64))
        numbers[place[np.repeat(shared, size)]] = np.repeat(np.arange(len(rows)), size[shared])
        return numbers, rows
