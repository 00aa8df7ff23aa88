"""Counts clipped n-gram matches: the n-grams that response and reference share, each as often as in both.

ROUGE-N and BLEU are quotients of these counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .arrays import Tokens, running

_KEY_BITS = 64


def clipped(candidate: Sequence[Hashable], reference: Sequence[Hashable], n: int) -> int:
    """Counts the clipped matches of one pair of token lists, n >= 1."""
    if n > 1:
        candidate = list(zip(*(candidate[i:] for i in range(n)), strict=False))
        reference = list(zip(*(reference[i:] for i in range(n)), strict=False))
    return (Counter(candidate) & Counter(reference)).total()


@dataclass(frozen=True, slots=True)
class _Groups:
    """N-grams of one order, row by row, with equal n-grams of a row in one group.

    Attributes:
        places: Positions of the n-grams' first tokens.
        edges: Start of each group in `places`, and the end.
        clipped: Clipped matches of each group.
        rows: Index of each row's first group, and the end.
    """

    places: np.ndarray
    edges: np.ndarray
    clipped: np.ndarray
    rows: np.ndarray

    def matches(self) -> np.ndarray:
        """Returns the clipped matches of each row, int64[rows]."""
        return np.diff(running(self.clipped)[self.rows])

    def numbered(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers the n-grams that both sides of their row have.

        Args:
            count: Tokens of the chunk.

        Returns:
            (int32[tokens], the number within its row, from 1, of the n-gram that starts at each token, 0 if only one
            side has it or none starts there; int64[rows + 1], the count of numbers in the rows before each row)
        """
        shared = self.clipped > 0
        before = running(shared)
        base = before[self.rows]
        group = before[1:] - np.repeat(base[:-1], np.diff(self.rows))
        group *= shared
        numbers = np.zeros(count, np.int32)
        numbers[self.places] = np.repeat(group.astype(np.int32), np.diff(self.edges))
        return numbers, base


class Grams:
    """Counts the clipped matches of all rows of a chunk by sorting the n-grams of each row.

    A token that only one side of its row has is dropped, since no n-gram with it can match. The others are numbered
    within their row, so that a sort key has room for several tokens: n-grams of several orders, each a prefix of the
    next, are counted after one sort. For higher orders, the longest n-grams so far are numbered in turn.

    A sort key has digits, then the position and the side of the n-gram's first token:

        | digit 1 | digit 2 | ... | position | side |      64 bits

    Two digits always fit into 64 bits, which is the minimum needed, if a chunk has at most 2**21 tokens.

    Attributes:
        tokens: The tokens.
        numbers: int32, number of each token within its row, from 1; 0 if only one side has it.
        base: int64[rows + 1], number of distinct tokens that both sides have, in the rows before each row.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        count = len(tokens.ids)
        self._sides = tokens.sides()
        self._marks = np.arange(0, 2 * count, 2, dtype=np.uint32)
        self._marks |= self._sides
        self._mark_bits = max(2 * count - 1, 1).bit_length()
        self._matches: list[np.ndarray] = []
        ids = tokens.ids.astype(np.uint32)
        self._count(np.zeros(count, np.uint32), [ids], self._marks, tokens.bounds[::2])
        self.numbers, self.base = self._last.numbered(count)
        self._tail = self._digits(self.numbers)

    def matches(self, n: int) -> list[np.ndarray]:
        """Returns the clipped matches of each row, int64[rows], for the orders 1 to n >= 1."""
        while len(self._matches) < n:
            self._extend(n - len(self._matches))
        return self._matches[:n]

    def _extend(self, most: int) -> None:
        """Counts the n-grams of as many further orders as fit into a sort key, at most `most`.

        They start with an n-gram of the last order that both sides have, followed by a token that both have.
        """
        numbers = self.numbers
        if len(self._matches) > 1:
            numbers, _ = self._last.numbered(len(numbers))
        heads = self._digits(numbers)
        orders = (_KEY_BITS - self._mark_bits - _bits(heads)) // max(_bits(self._tail), 1)
        self._tail = self._following(self._tail)
        at = np.flatnonzero((numbers > 0) & (self._tail > 1))
        tails = [self._tail.take(at)]
        for _ in range(1, min(orders, most)):
            self._tail = self._following(self._tail)
            tails.append(self._tail.take(at))
        rows = np.searchsorted(at, self.tokens.bounds[::2])
        self._count(heads.take(at), tails, self._marks.take(at), rows)

    def _count(self, heads: np.ndarray, tails: list[np.ndarray], marks: np.ndarray, rows: np.ndarray) -> None:
        """Counts the n-grams of one order per further digit.

        Args:
            heads: First digits of the n-grams.
            tails: Further digits.
            marks: Their positions and sides.
            rows: Index of each row's first n-gram, and the end.
        """
        width = max(map(_bits, tails))
        bits = _bits(heads) + width * len(tails) + self._mark_bits
        keys = heads.astype(np.uint32 if bits <= 32 else np.uint64)
        for tail in tails:
            keys <<= width
            keys |= tail
        keys <<= self._mark_bits
        keys |= marks
        for begin, end in pairwise(rows.tolist()):
            keys[begin:end].sort()
        steps = keys[1:] ^ keys[:-1]
        keys &= (1 << self._mark_bits) - 1
        theirs, places = running(keys & 1), (keys >> 1).astype(np.int32)
        edge = np.empty(len(keys) + 1, bool)
        for later in reversed(range(len(tails))):
            np.greater_equal(steps, 1 << self._mark_bits + width * later, out=edge[1:-1])
            edge[rows] = True
            edges = np.flatnonzero(edge)
            references = np.diff(theirs[edges])
            clipped = np.minimum(references, np.diff(edges) - references)
            self._last = _Groups(places, edges, clipped, np.searchsorted(edges, rows))
            self._matches.append(self._last.matches())

    def _digits(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the digits, uint32: the number + 1, or the side if it is 0, so that sides never have equal digits."""
        digits = (numbers > 0) | self._sides
        return (numbers + digits).view(np.uint32)

    def _following(self, digits: np.ndarray) -> np.ndarray:
        """Returns the digit of the next token for each token; the last token of a text has none."""
        found = np.empty_like(digits)
        found[:-1] = digits[1:]
        ends = self.tokens.bounds[self.tokens.bounds > 0] - 1
        found[ends] = self._sides[ends]
        return found


def _bits(digits: np.ndarray) -> int:
    """Returns the number of bits of the largest digit."""
    return int(digits.max(initial=0)).bit_length()
