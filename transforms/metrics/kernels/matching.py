"""JSON equality, and matchings between two short lists.

A relation between n predicted and m reference calls is a list of n bit masks. Bit j of mask i is set if predicted call
i and reference call j are the same call:

    predicted  reference  masks
    search     search     0b001
    book       book       0b110     (book equals the reference calls 1 and 2)
               book

All counting on it is integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

_INFINITY = float("inf")


def json_equal(a: Any, b: Any) -> bool:
    """Compares two JSON values: key order is ignored, list order is not, 1 == 1.0, true != 1, "1" != 1."""
    return a == b and _same_booleans(a, b)


def _same_booleans(a: Any, b: Any) -> bool:
    """Returns true if two values that are equal in Python have booleans at the same positions (in Python True == 1)."""
    if a is b:
        return True
    kind = type(a)
    if kind is dict:
        for key, value in a.items():
            if type(value) is not str:
                other = b[key]
                if value is not other and not _same_booleans(value, other):
                    return False
        return True
    if kind is list:
        return all(map(_same_booleans, a, b))
    return (kind is bool) == (type(b) is bool)


def json_key(value: Any, strict: bool = True) -> Hashable:
    """Returns a hashable key; two values have equal keys if and only if they are equal by `json_equal`.

    Args:
        value: A JSON value.
        strict: `False` treats true as 1 and false as 0, as Python's `==` does.
    """
    kind = type(value)
    if kind is dict:
        return frozenset([(k, v if type(v) is str else json_key(v, strict)) for k, v in value.items()])
    if kind is list or kind is tuple:
        return tuple([json_key(v, strict) for v in value])
    if strict and kind is bool:
        return bool, value
    return value


def matched(masks: Sequence[int], equivalence: bool = True) -> int:
    """Counts the pairs of a largest one-to-one matching of masks to bits.

    Args:
        masks: A relation, see above.
        equivalence: True if the relation comes from an equivalence between calls, for which taking the first free bit
            is optimal; otherwise augmenting paths are searched.
    """
    free = union(masks)
    most = min(free.bit_count(), len(masks) - list(masks).count(0))
    owners: dict[int, int] = {}
    waiting = []
    for i, mask in enumerate(masks):
        hit = mask & free
        if hit:
            bit = hit & -hit
            free ^= bit
            owners[bit] = i
        elif mask:
            waiting.append(i)
    if not equivalence:
        for i in waiting:
            if len(owners) == most:
                break
            _augment(masks, owners, i)
    return len(owners)


def _augment(masks: Sequence[int], owners: dict[int, int], start: int) -> None:
    """Finds a bit for mask `start`, if possible by moving other masks to other bits (breadth-first search)."""
    came_from: dict[int, int] = {}
    seen, queue = 0, [start]
    for i in queue:
        fresh = masks[i] & ~seen
        seen |= fresh
        while fresh:
            bit = fresh & -fresh
            fresh ^= bit
            came_from[bit] = i
            if bit in owners:
                queue.append(owners[bit])
                continue
            held = {i: b for b, i in owners.items()}
            step: int | None = bit
            while step is not None:
                owner = came_from[step]
                owners[step], step = owner, held.get(owner)
            return


def union(masks: Sequence[int]) -> int:
    """Returns the bits that are set in any of the masks."""
    bits = 0
    for mask in masks:
        bits |= mask
    return bits


def best_assignment(weights: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pairs rows with columns one-to-one for the largest sum of weights (the Hungarian method).

    Args:
        weights: n rows of m finite weights each, n <= m.

    Returns:
        n pairs (row, column) in order of the rows; O(n² m).
    """
    n, m = len(weights), len(weights[0]) if weights else 0
    row_price, column_price = [0.0] * (n + 1), [0.0] * (m + 1)
    row_of, previous = [0] * (m + 1), [0] * (m + 1)  # column 0 is a dummy, from which each new row starts
    for row in range(1, n + 1):
        row_of[0], column = row, 0
        slack, done = [_INFINITY] * (m + 1), [False] * (m + 1)
        while row_of[column]:
            done[column] = True
            here, least, following = row_of[column], _INFINITY, 0
            for j in range(1, m + 1):
                if done[j]:
                    continue
                gap = -weights[here - 1][j - 1] - row_price[here] - column_price[j]
                if gap < slack[j]:
                    slack[j], previous[j] = gap, column
                if slack[j] < least:
                    least, following = slack[j], j
            for j in range(m + 1):
                if done[j]:
                    row_price[row_of[j]] += least
                    column_price[j] -= least
                else:
                    slack[j] -= least
            column = following
        while column:
            row_of[column], column = row_of[previous[column]], previous[column]
    return sorted((row_of[j] - 1, j - 1) for j in range(1, m + 1) if row_of[j])
