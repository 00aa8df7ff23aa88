"""Clipped n-gram matches: for each row, how many n-grams of the response the reference has too, counted at most as
often as in either. ROUGE-N and BLEU are quotients of these numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .arrays import Tokens, running

_KEY_BITS = 64


def clipped(candidate: Sequence[Hashable], reference: Sequence[Hashable], n: int) -> int:
    """Clipped matches of one pair of token lists, n >= 1."""
    if n > 1:
        candidate = list(zip(*(candidate[i:] for i in range(n)), strict=False))
        reference = list(zip(*(reference[i:] for i in range(n)), strict=False))
    return (Counter(candidate) & Counter(reference)).total()


@dataclass(frozen=True, slots=True)
class _Groups:
    """N-grams of one order, row by row, equal ones of a row together.

    Attributes:
        places: Positions of the n-grams' first tokens.
        edges: Where in `places` the groups of equal ones begin, and the end.
        clipped: Clipped matches of each group.
        rows: Index of each row's first group, and the end.
    """

    places: np.ndarray
    edges: np.ndarray
    clipped: np.ndarray
    rows: np.ndarray

    def matches(self) -> np.ndarray:
        """int64, clipped matches of each row."""
        return np.diff(running(self.clipped)[self.rows])

    def numbered(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers for the n-grams that both sides of their row have.

        Args:
            count: Tokens of the chunk.

        Returns:
            (int32, for each token the number within its row, from 1 on, of the n-gram that begins there, 0 where one
            side alone has it or none begins; int64[rows + 1], how many numbers the rows before have)
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
    """Clipped matches of all rows of a chunk, by sorting the n-grams of each row.

    A token that one side of its row alone has is given up at once, since no n-gram that contains it can match. The
    others are numbered within their row, so that a sort key has room for several: the n-grams of several orders, each
    the beginning of the next, are counted after one sort. Beyond that, the longest n-grams so far get numbers in turn.

    A sort key holds digits, then the place and side of the n-gram's first token. 64 bits are enough for two digits, the
    least there must be room for, if a chunk has at most 2**21 tokens.

    Attributes:
        tokens: The tokens.
        numbers: int32, for each token its number within its row, from 1 on; 0 where one side alone has it.
        base: int64[rows + 1], how many different tokens that both sides have the rows before have.
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
        """int64, clipped matches of each row, of the orders 1 to n >= 1."""
        while len(self._matches) < n:
            self._extend(n - len(self._matches))
        return self._matches[:n]

    def _extend(self, most: int) -> None:
        """Counts the n-grams of as many further orders as fit, at most so many.

        They begin with an n-gram of the last order that both sides have, and go on with a token that both have.
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
        """Counts n-grams of an order for each further digit.

        Args:
            heads: First digits of the n-grams.
            tails: Further digits.
            marks: Their places and sides.
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
        """uint32, the number + 1, or where it is 0 the side, so that it equals no digit of the other side."""
        digits = (numbers > 0) | self._sides
        return (numbers + digits).view(np.uint32)

    def _following(self, digits: np.ndarray) -> np.ndarray:
        """For each token the digit of the next one; none after a text's last."""
        found = np.empty_like(digits)
        found[:-1] = digits[1:]
        ends = self.tokens.bounds[self.tokens.bounds > 0] - 1
        found[ends] = self._sides[ends]
        return found


def _bits(digits: np.ndarray) -> int:
    """Bits that the digits take."""
    return int(digits.max(initial=0)).bit_length()
