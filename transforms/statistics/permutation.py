"""Exact tests of paired differences: what would chance alone have shown?

If two runs are of the same agent, it is chance which of two scores of a row came from which run: every difference
could as well have had the other sign. The sign-flip test counts the share of all such outcomes that are at least as far
from 0 as the one that was seen. It assumes nothing of how the differences are distributed.

Source: Fisher (1935), The design of experiments, section 21; for random flips, Phipson and Smyth (2010), Permutation
p-values should never be zero.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import numpy as np

EXACT = 20
"""Most units that changed of which every outcome is counted."""
FLIPS = 10_000
"""Random outcomes beyond that, at least."""
BUCKETS = 1024
"""Most units that flip independently; beyond, those whose key falls into the same of as many buckets flip together."""

_WORD = 64
_SHIFT = 64 - BUCKETS.bit_length() + 1
_CHUNK = 256
_TIED = 1e-10
"""Sums this close, relative to the sum of all magnitudes, count as equal: the order of adding must not decide."""


def key_of(unit: str) -> int:
    """Returns the key of a unit's name, a hash of 64 bits."""
    return int.from_bytes(hashlib.blake2b(unit.encode(), digest_size=8).digest(), "big")


def bucket_of(key: int) -> int:
    """Returns the key of the bucket to which a key belongs: its first bits."""
    return key >> _SHIFT << _SHIFT


def fold(sums: Mapping[int, float]) -> dict[int, float]:
    """Merges units into buckets. Flipping whole buckets keeps the test exact and bounds its cost."""
    folded: dict[int, float] = {}
    for key, value in sums.items():
        bucket = bucket_of(key)
        folded[bucket] = folded.get(bucket, 0.0) + value
    return folded


def sign_flip(sums: Mapping[int, float], flips: int = FLIPS) -> float:
    """Returns the two-sided p-value of the sum of differences under flips of their signs.

    It counts every outcome of up to `EXACT` units that changed. Of more it takes `flips` outcomes; the seen one counts
    as one more. Which signs an outcome has depends on the units' keys alone, so that the p-value is the same in every
    run, and a unit flips alike in all metrics and slices.

    Args:
        sums: Sum of the differences of each unit, by its key.
        flips: Number of random outcomes, rounded up to a multiple of 64.
    """
    changed = sorted((key, value) for key, value in sums.items() if value != 0)
    values = np.array([value for _, value in changed])
    if not changed:
        return 1.0
    edge = abs(math.fsum(values)) - _TIED * float(np.abs(values).sum())
    if len(changed) <= EXACT:
        return _count_beyond(values, edge) / 2 ** len(changed)
    keys = np.array([key for key, _ in changed], np.uint64)
    words = -(-flips // _WORD)
    outcomes = np.zeros(words * _WORD)
    for start in range(0, len(changed), _CHUNK):
        part = slice(start, start + _CHUNK)
        outcomes += values[part] @ _flip_signs(keys[part], words)
    found = int(np.count_nonzero(np.abs(outcomes) >= edge))
    return (found + 1) / (words * _WORD + 1)


def sign_test(better: int, worse: int) -> float:
    """Returns the two-sided p-value of the exact sign test.

    It is the binomial test of `better` in `better + worse` with share 1/2; 1 if nothing changed. Of differences that
    all have the same magnitude it is the sign-flip test, and of scores 0 and 1 McNemar's exact test.
    """
    n, few = better + worse, min(better, worse)
    if 2 * few == n:
        return 1.0
    term = total = 1.0
    for k in range(few, 0, -1):
        term *= k / (n - k + 1)
        total += term
        if term < total * 1e-17:
            break
    most = math.lgamma(n + 1) - math.lgamma(few + 1) - math.lgamma(n - few + 1) - n * math.log(2)
    return min(2 * total * math.exp(most), 1.0)


def _count_beyond(values: np.ndarray, edge: float) -> int:
    """Counts the outcomes whose sum is at least `edge` from 0; all outcomes of each half are joined by a search."""
    left, right = (_list_sums(half) for half in np.array_split(values, 2))
    right = np.sort(right)
    above = len(right) * len(left) - int(np.searchsorted(right, edge - left, side="left").sum())
    below = int(np.searchsorted(right, -edge - left, side="right").sum())
    return min(above + below, len(left) * len(right))


def _list_sums(values: np.ndarray) -> np.ndarray:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _flip_signs(keys: np.ndarray, words: int) -> np.ndarray:
    """Returns signs (+1 or -1) of shape (keys, 64 * words)."""
    bits = np.unpackbits(draw_words(keys, words).view(np.uint8), axis=1)
    return bits * 2.0 - 1.0


def draw_words(keys: np.ndarray, words: int, first: int = 0) -> np.ndarray:
    """Returns random words of 64 bits, of shape (keys, words); each is a hash of its number, from `first`, and the key.

    Source: Steele, Lea and Flood (2014), Fast splittable pseudorandom number generators (the mix of SplitMix64).
    """
    counters = np.arange(first + 1, first + words + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = keys[:, None] + counters[None, :]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z.astype("<u8")
