"""The union of longest common subsequences (see union.py) for all rows of a chunk at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .arrays import changes, running
from .lanes import LIMB, Lanes
from .ngrams import Grams
from .union import union_hits

BLOCK_BYTES = 1 << 16
"""Bytes of one vector over the lanes of a block, so that a block's vectors stay in the second-level cache."""
MOST_LANES = 1 << 17
"""Maximum lanes processed at once; bounds the memory of rows with thousands of lines."""
MOST_WORDS = 256
"""64-bit words of a row's reference lines above which one big integer for all of them is faster."""
FEWEST_WIDE_ROWS = 4
"""Minimum rows with multi-word lines of one width, or with lines of about the maximum length; for fewer rows the fixed
costs of vectors exceed those of big integers."""
LONG_LINE = 1000
"""Response lines of up to this number of tokens are never too long for vectors."""
FEWEST_LANES = 4096
"""Minimum lanes of 16 or 32 bits; fewer lanes are processed with the next wider ones."""
_NARROW = {16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(frozen=True, slots=True)
class _Side:
    """Lines with at least one shared token, of the responses or of the references of a chunk.

    Attributes:
        tokens: Number of each token within its row, from 1; 0 for unknown tokens in between.
        starts, sizes: First token and number of tokens of each line.
        rows: Row of each line, ascending.
        at: Positions of the tokens in the chunk.
    """

    tokens: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray
    at: np.ndarray


def union_hits_of(grams: Grams, lcs: np.ndarray) -> np.ndarray:
    """Computes the clipped size of the union of each row, int64[rows].

    Args:
        grams: Unigrams of the chunk, whose tokens have lines.
        lcs: Length of a longest common subsequence of each row; it is the union's size of rows in which only one line
            on each side has shared tokens.
    """
    rows, base = grams.tokens.rows, grams.base
    ours, theirs = _sides(grams)
    partners = np.bincount(ours.rows, minlength=rows)
    several = np.maximum(partners, np.bincount(theirs.rows, minlength=rows)) > 1
    widths = _widths(theirs.sizes)
    odd = several & (_odd(theirs.rows, widths, several) | _overlong(ours, several))
    used = np.zeros(len(theirs.tokens), bool)
    regular = (several & ~odd)[theirs.rows]
    _join_few(widths, np.where(regular, partners[theirs.rows], 0))
    for width in np.unique(widths[regular]).tolist():
        _align(ours, theirs, np.flatnonzero((widths == width) & regular), width, base, used)
    hits = np.where(several, _clipped(grams, theirs.at[used]), lcs)
    for row in np.flatnonzero(odd).tolist():
        hits[row] = union_hits(_lines(ours, row), _lines(theirs, row))
    return hits


def _sides(grams: Grams) -> tuple[_Side, _Side]:
    tokens, known, is_reference = grams.tokens, grams.numbers > 0, grams.tokens.sides()
    line = np.repeat(np.arange(len(tokens.lines), dtype=np.int32), np.diff(tokens.lines, append=len(known)))
    row, kept = tokens.row_of_token(), known > is_reference
    kept[1:] |= kept[:-1] & (line[1:] == line[:-1])
    found = []
    for at in (np.flatnonzero(kept), np.flatnonzero(known & is_reference)):
        edges = changes(line[at])
        found.append(_Side(grams.numbers[at].astype(np.int64), edges[:-1], np.diff(edges), row[at[edges[:-1]]], at))
    return found[0], found[1]


def _widths(sizes: np.ndarray) -> np.ndarray:
    """Returns the bits for lines of these sizes: 16, 32, 64, then 64 × 2, 3, 4, 6, 8 ..., so that widths are few."""
    narrow = np.where(sizes <= 16, 16, np.where(sizes <= 32, 32, 64))
    exact = -(-sizes // LIMB)
    power = 1 << np.ceil(np.log2(np.maximum(exact, 1))).astype(np.int64)
    return np.where(sizes <= 64, narrow, 64 * np.where(exact <= power * 3 // 4, power * 3 // 4, power))


def _odd(rows: np.ndarray, widths: np.ndarray, several: np.ndarray) -> np.ndarray:
    """Selects the rows to process one by one with big integers."""
    odd = np.bincount(rows, -(-widths // 64), len(several)) > MOST_WORDS
    for width in np.unique(widths[widths > 64]).tolist():
        having = np.unique(rows[widths == width])
        if np.count_nonzero(several[having]) < FEWEST_WIDE_ROWS:
            odd[having] = True
    return odd


def _overlong(ours: _Side, several: np.ndarray) -> np.ndarray:
    """Selects rows with a response line far longer than the others', most of whose steps would have few lanes."""
    longest = np.zeros(len(several), np.int64)
    np.maximum.at(longest, ours.rows, ours.sizes)
    common = np.sort(longest[several])[-FEWEST_WIDE_ROWS:][0] if np.count_nonzero(several) >= FEWEST_WIDE_ROWS else 0
    return longest > max(2 * common, LONG_LINE)


def _join_few(widths: np.ndarray, lanes: np.ndarray) -> None:
    """Doubles, in place, the width of narrow lines if there are few lanes of their width."""
    for narrow in (16, 32):
        if lanes[widths == narrow].sum() < FEWEST_LANES:
            widths[widths == narrow] = 2 * narrow


def _lines(side: _Side, row: int) -> list[list[int]]:
    lines = range(*np.searchsorted(side.rows, (row, row + 1)).tolist())
    return [side.tokens[side.starts[i] : side.starts[i] + side.sizes[i]].tolist() for i in lines]


def _clipped(grams: Grams, at: np.ndarray) -> np.ndarray:
    """Counts the tokens at these positions of the references, each at most as often as the response has it."""
    row, numbers, size = grams.tokens.row_of_token(), grams.numbers, int(grams.base[-1])
    ours = np.flatnonzero((numbers > 0) & ~grams.tokens.sides())
    token = numbers + grams.base[row] - 1
    hits = np.minimum(np.bincount(token[ours], minlength=size), np.bincount(token[at], minlength=size))
    return np.diff(running(hits)[grams.base]).astype(np.int64)


def _align(ours: _Side, theirs: _Side, chosen: np.ndarray, width: int, base: np.ndarray, used: np.ndarray) -> None:
    """Marks in `used` the tokens of the chosen reference lines, all of `width` bits, that alignments use."""
    rows = theirs.rows[chosen]
    which, place, token_at = _tokens_of(theirs, chosen)
    limb, bit = np.divmod(place, LIMB) if width > 64 else (0, place)
    kind = _NARROW.get(width, np.uint64)
    offsets = np.concatenate(([0], np.cumsum(np.diff(base)[rows] + 1)))
    words, size = max(width // 64, 1), int(offsets[-1])
    masks = np.zeros(words * size, kind)
    bit = bit.astype(kind)
    np.add.at(masks, limb * size + offsets[which] + theirs.tokens[token_at], np.left_shift(kind(1), bit))
    union = _unions(ours, rows, masks.reshape(words, size), offsets)
    used[token_at] |= (union[limb, which] >> bit & kind(1)).astype(bool)


def _tokens_of(side: _Side, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, for each token of the chosen lines: the line, its index in the line, its index in `tokens`."""
    sizes = side.sizes[chosen]
    which = np.repeat(np.arange(len(chosen)), sizes)
    place = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return which, place, side.starts[chosen][which] + place


def _unions(ours: _Side, rows: np.ndarray, masks: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns the bits of reference lines that alignments with all response lines use, unsigned[words, lines]."""
    first = np.searchsorted(ours.rows, rows)
    partners = np.searchsorted(ours.rows, rows, side="right") - first
    ends = np.cumsum(partners)
    union = np.zeros((len(masks), len(rows)), masks.dtype)
    begin = 0
    while begin < len(rows):
        done = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, done + MOST_LANES, side="right")), begin + 1)
        counts, from_lane = partners[begin:end], ends[begin:end] - partners[begin:end] - done
        partner = np.arange(int(counts.sum())) + np.repeat(first[begin:end] - from_lane, counts)
        found = _found(ours, partner, np.repeat(offsets[begin:end], counts), masks)
        union[:, begin:end] = np.bitwise_or.reduceat(found, from_lane, axis=1)
        begin = end
    return union


def _found(ours: _Side, partner: np.ndarray, offset: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Returns the bits that each lane's alignment uses, unsigned[words, lanes]; blocks have lanes of similar length."""
    found = np.empty((len(masks), len(partner)), masks.dtype)
    order = np.argsort((65535 - ours.sizes[partner]).astype(np.uint16), kind="stable")
    block = BLOCK_BYTES // masks.itemsize // len(masks)
    for begin in range(0, len(order), block):
        part = order[begin : begin + block]
        lines = partner[part]
        found[:, part] = Lanes(masks, offset[part], ours.tokens, ours.starts[lines], ours.sizes[lines]).used()
    return found
