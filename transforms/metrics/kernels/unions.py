"""The union of longest common subsequences (see union.py) for all rows of a chunk at once.

Every pair of a reference line and a response line of a row is one lane of a vector; the loop runs over the tokens of
the response lines, the longest lanes first, so that the lanes still running are a prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .ngrams import Grams
from .union import union_hits

LIMB = 63
"""Reference tokens in one 64-bit word; the topmost bit takes the carry."""
LANES = 4096
"""Lanes worked at once: the vectors of one step stay in the processor's second-level cache."""
MOST_WORDS = 256
"""Words of a row's reference lines above which one big integer for all of them is faster."""
FEWEST_LANES = 5
"""Lanes for each word of a lane below which a vector's fixed costs exceed those of big integers."""
_ONE, _ALL = np.uint64(1), np.uint64((1 << LIMB) - 1)


@dataclass(frozen=True, slots=True)
class _Side:
    """Lines with at least one shared token, of the responses or of the references of a chunk.

    Attributes:
        tokens: For each token its number within its row counted from 1, or 0 for unknown ones in between.
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
    """int64, clipped size of the union of each row.

    Args:
        grams: Unigrams of the chunk, whose tokens have lines.
        lcs: Length of a longest common subsequence of each row: where only one line on each side has shared tokens,
            that is the union's size.
    """
    tokens = grams.tokens
    line = np.repeat(np.arange(len(tokens.lines)), np.diff(tokens.lines, append=len(tokens.ids)))
    known = grams.shared >= 0
    after_known = np.zeros_like(known)
    after_known[1:] = known[:-1] & (line[1:] == line[:-1])
    is_ours = np.arange(len(line)) < tokens.half
    base = np.searchsorted(grams.group_rows, np.arange(tokens.rows + 1))
    ours = _side(grams, np.flatnonzero(is_ours & (known | after_known)), line, base)
    theirs = _side(grams, np.flatnonzero(~is_ours & known), line, base)
    partners = np.bincount(ours.rows, minlength=tokens.rows)
    several = np.maximum(partners, np.bincount(theirs.rows, minlength=tokens.rows)) > 1
    words = _widths(theirs.sizes)
    odd = several & _odd(theirs.rows, words, partners)
    used = np.zeros(len(theirs.tokens), bool)
    for width in np.unique(words).tolist():
        chosen = np.flatnonzero((words == width) & (several & ~odd)[theirs.rows])
        _align(ours, theirs, chosen, width, base, used)
    hits = np.where(several, _clipped(grams, theirs.at[used]), lcs)
    for row in np.flatnonzero(odd).tolist():
        hits[row] = union_hits(_lines(ours, row), _lines(theirs, row))
    return hits


def _widths(sizes: np.ndarray) -> np.ndarray:
    """Words for lines of so many tokens: 1, 2, 3, 4, 6, 8, 12, 16 ..., so that few different ones occur."""
    exact = -(-sizes // LIMB)
    power = 1 << np.ceil(np.log2(np.maximum(exact, 1))).astype(np.int64)
    return np.where(exact <= power * 3 // 4, np.maximum(power * 3 // 4, 1), power)


def _odd(rows: np.ndarray, words: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """Rows that go one by one through big integers."""
    total = np.bincount(rows, words, len(partners))
    lanes = np.bincount(words, partners[rows])[words] if len(words) else words
    thin = np.bincount(rows, (lanes < FEWEST_LANES * words) & (words > 1), len(partners))
    return (total > MOST_WORDS) | (thin > 0)


def _lines(side: _Side, row: int) -> list[list[int]]:
    lines = range(*np.searchsorted(side.rows, (row, row + 1)).tolist())
    return [side.tokens[side.starts[i] : side.starts[i] + side.sizes[i]].tolist() for i in lines]


def _side(grams: Grams, at: np.ndarray, line: np.ndarray, base: np.ndarray) -> _Side:
    _, starts, sizes = np.unique(line[at], return_index=True, return_counts=True)
    row = grams.tokens.row_of_token()[at]
    shared = grams.shared[at]
    return _Side(np.where(shared >= 0, shared - base[row] + 1, 0), starts, sizes, row[starts], at)


def _clipped(grams: Grams, at: np.ndarray) -> np.ndarray:
    """Tokens at these positions of the references, each counted at most as often as the response has it."""
    groups, tokens = len(grams.group_rows), grams.tokens
    ours = grams.shared[: tokens.half]
    counts = np.bincount(ours[ours >= 0], minlength=groups)
    hits = np.minimum(counts, np.bincount(grams.shared[at], minlength=groups))
    return np.bincount(grams.group_rows, hits, tokens.rows).astype(np.int64)


def _align(ours: _Side, theirs: _Side, chosen: np.ndarray, width: int, base: np.ndarray, used: np.ndarray) -> None:
    """Marks in `used` the tokens of the chosen reference lines, all of `width` words, that alignments use."""
    rows = theirs.rows[chosen]
    offsets = np.concatenate(([0], np.cumsum(np.diff(base)[rows] + 1)))
    masks = _masks(theirs, chosen, width, offsets)
    first = np.searchsorted(ours.rows, rows)
    partners = np.searchsorted(ours.rows, rows, side="right") - first
    union = np.zeros((width, len(chosen)), np.uint64)
    ends = np.cumsum(partners)
    begin = 0
    while begin < len(chosen):
        done = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, done + LANES // width, side="right")), begin + 1)
        part = slice(begin, end)
        owner = np.repeat(np.arange(begin, end), partners[part])
        within = np.arange(len(owner)) - np.repeat(ends[part] - partners[part] - done, partners[part])
        partner = first[owner] + within
        order = np.argsort(-ours.sizes[partner], kind="stable")
        owner, partner = owner[order], partner[order]
        found = np.empty((width, len(order)), np.uint64)
        found[:, order] = _lanes(masks, offsets[owner], ours, partner)
        union[:, part] = np.bitwise_or.reduceat(found, ends[part] - partners[part] - done, axis=1)
        begin = end
    _mark(union, theirs, chosen, used)


def _masks(theirs: _Side, chosen: np.ndarray, width: int, offsets: np.ndarray) -> np.ndarray:
    """uint64[width, sum of (tokens of the row + 1)]: for each line and token the bits where the line has it."""
    sizes = theirs.sizes[chosen]
    which = np.repeat(np.arange(len(chosen)), sizes)
    place = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    token = theirs.tokens[theirs.starts[chosen][which] + place]
    masks = np.zeros((width, int(offsets[-1])), np.uint64)
    np.add.at(masks, (place // LIMB, offsets[which] + token), _ONE << (place % LIMB).astype(np.uint64))
    return masks


def _mark(union: np.ndarray, theirs: _Side, chosen: np.ndarray, used: np.ndarray) -> None:
    sizes = theirs.sizes[chosen]
    which = np.repeat(np.arange(len(chosen)), sizes)
    place = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    bits = union[place // LIMB, which] >> (place % LIMB).astype(np.uint64) & _ONE
    used[theirs.starts[chosen][which] + place] |= bits.astype(bool)


def _lanes(masks: np.ndarray, offset: np.ndarray, ours: _Side, partner: np.ndarray) -> np.ndarray:
    """uint64[width, lanes]: the reference tokens each lane's alignment uses.

    Args:
        masks: From `_masks`.
        offset: Where in it each lane's reference line begins.
        partner: Response line of each lane, longest first.
    """
    width, lanes = len(masks), len(partner)
    sizes, starts = ours.sizes[partner], ours.starts[partner]
    running = np.searchsorted(-sizes, -np.arange(int(sizes[0])), side="left")
    state = np.full((width, lanes), _ALL)
    history: list[tuple[np.ndarray, np.ndarray]] = []
    for column, n in enumerate(running.tolist()):
        match = masks[:, offset[:n] + ours.tokens[starts[:n] + column]]
        _step(state[:, :n], match)
        history.append((match, match | (state[:, :n] ^ _ALL)))
    below, found = np.full((width, lanes), _ALL), np.zeros((width, lanes), np.uint64)
    for match, reach in reversed(history):
        n = match.shape[1]
        _step_back(below[:, :n], found[:, :n], match, reach)
    return found


def _step(state: np.ndarray, match: np.ndarray) -> None:
    """One response token: the complement of D, in place."""
    carry: np.ndarray | None = None
    for limb in range(len(state)):
        here = state[limb]
        both = here & match[limb]
        total = here + both
        if carry is not None:
            total += carry
        carry = total >> np.uint64(LIMB)
        here ^= both
        here |= total
        here &= _ALL


def _step_back(below: np.ndarray, found: np.ndarray, match: np.ndarray, reach: np.ndarray) -> None:
    """One response token on the way back: updates the bits at or below the present ones, and those used."""
    searching: np.ndarray | None = None
    for limb in reversed(range(len(below))):
        bits = reach[limb] & below[limb]
        for shift in (1, 2, 4, 8, 16, 32):
            bits |= bits >> np.uint64(shift)
        hits = (bits ^ (bits >> _ONE)) & match[limb]
        after = bits ^ hits
        if searching is not None:
            hits &= searching
            after = (after & searching) | (below[limb] & ~searching)
        found[limb] |= hits
        if limb:
            here = np.where(bits != 0, np.uint64(0), ~np.uint64(0))
            searching = here if searching is None else searching & here
        below[limb] = after
