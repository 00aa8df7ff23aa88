"""Aligns many pairs of lines at once, as bit vectors in the lanes of numpy arrays (see union.py for the algorithm).

A lane is a line of a reference paired with a line of a response. The loop runs over the columns of the response lines.
Lanes are sorted by length, longest first, so that the running lanes of each column are a prefix of the arrays:

    lane 0   a b c d
    lane 1   a b c
    lane 2   a
    running  3 2 2 1
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LIMB = 63
"""Reference tokens per 64-bit word of a multi-word line; the topmost bit takes the carry."""
_ONE, _LIMB_BITS = np.uint64(1), np.uint64((1 << LIMB) - 1)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The pairs of lines to align.

    Attributes:
        masks: Unsigned[words, ...], bits of the reference line's tokens that equal a token.
        offsets: int64, start of each lane's reference line in `masks`; the bits for token t are at offset + t.
        tokens: int64, tokens of all response lines, concatenated.
        starts: int64, index of the first token of each lane's response line.
        sizes: int64, number of its tokens, at least 1; descending.
    """

    masks: np.ndarray
    offsets: np.ndarray
    tokens: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray

    def running(self) -> list[int]:
        """Returns the number of lanes that have a token in each column."""
        return np.searchsorted(-self.sizes, -np.arange(int(self.sizes[0])), side="left").tolist()

    def used(self) -> np.ndarray:
        """Returns the bits of the reference tokens that each lane's alignment uses, unsigned[words, lanes]."""
        return _narrow(self)[None] if len(self.masks) == 1 else _wide(self)


def _narrow(lanes: Lanes) -> np.ndarray:
    """Aligns reference lines of one word of 16, 32 or 64 bits; all bits are used, since a carry out may be lost."""
    masks, kind = lanes.masks[0], lanes.masks.dtype
    running, count = lanes.running(), len(lanes.sizes)
    matches, reaches = np.empty((2, int(lanes.sizes.sum())), kind)
    state, spare, sums = np.full(count, ~kind.type(0)), np.empty(count, kind), np.empty(count, kind)
    pointers, places = lanes.starts.copy(), np.empty(count, np.int64)
    end = 0
    for n in running:
        here, place, both, total = state[:n], places[:n], spare[:n], sums[:n]
        match, reach = matches[end : end + n], reaches[end : end + n]
        end += n
        lanes.tokens.take(pointers[:n], out=place, mode="clip")
        pointers[:n] += 1
        place += lanes.offsets[:n]
        masks.take(place, out=match, mode="clip")
        np.bitwise_and(here, match, out=both)
        np.add(here, both, out=total)
        here ^= both
        here |= total
        np.invert(here, out=reach)
        reach |= match
    below, found = np.full(count, ~kind.type(0)), np.zeros(count, kind)
    for n in reversed(running):
        bits, down, under = spare[:n], sums[:n], below[:n]
        match, reach = matches[end - n : end], reaches[end - n : end]
        end -= n
        np.bitwise_and(reach, under, out=bits)
        _smear(bits, down)
        np.right_shift(bits, kind.type(1), out=down)
        down ^= bits
        down &= match
        found[:n] |= down
        np.bitwise_xor(bits, down, out=under)
    return found


def _smear(bits: np.ndarray, spare: np.ndarray) -> None:
    """Sets every bit below the highest set one, in place."""
    shift = 1
    while shift < 8 * bits.itemsize:
        np.right_shift(bits, bits.dtype.type(shift), out=spare)
        bits |= spare
        shift *= 2


def _wide(lanes: Lanes) -> np.ndarray:
    """Aligns reference lines of several words of 63 bits."""
    count = len(lanes.sizes)
    history = _wide_forward(lanes)
    found = np.zeros(len(lanes.masks) * count, np.uint64)
    below, word = np.full(count, _LIMB_BITS), np.full(count, len(lanes.masks) - 1)
    every, spare = np.arange(count), np.empty(count, np.uint64)
    for match, reach in reversed(history):
        n = match.shape[1]
        here, lane = word[:n], every[:n]
        bits = reach.ravel().take(here * n + lane)
        bits &= below[:n]
        _descend(bits, here, reach)
        _smear(bits, spare[:n])
        hits = bits >> _ONE
        hits ^= bits
        hits &= match.ravel().take(here * n + lane)
        found[here * count + lane] |= hits
        np.bitwise_xor(bits, hits, out=below[:n])
    return found.reshape(len(lanes.masks), count)


def _wide_forward(lanes: Lanes) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the bits of M and of M | D for each column, [words, running lanes]."""
    words, history = len(lanes.masks), []
    state = np.full((words, len(lanes.sizes)), _LIMB_BITS)
    for column, n in enumerate(lanes.running()):
        match = lanes.masks.take(lanes.offsets[:n] + lanes.tokens[lanes.starts[:n] + column], axis=1)
        here = state[:, :n]
        both = here & match
        total = here + both
        for limb in range(1, words):
            total[limb] += total[limb - 1] >> np.uint64(LIMB)
        here ^= both
        here |= total
        here &= _LIMB_BITS
        history.append((match, match | (here ^ _LIMB_BITS)))
    return history


def _descend(bits: np.ndarray, word: np.ndarray, reach: np.ndarray) -> None:
    """Moves lanes without a bit in their word to the next lower words, all of whose bits are still below."""
    empty = np.flatnonzero((bits == 0) & (word > 0))
    while len(empty):
        word[empty] -= 1
        bits[empty] = reach[word[empty], empty]
        empty = empty[(bits[empty] == 0) & (word[empty] > 0)]
