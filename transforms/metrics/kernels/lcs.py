"""Lengths of longest common subsequences, by rapidfuzz on strings whose characters are tokens."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cpdist

from .ngrams import Grams

_SURROGATES, _LAST = 0xD800, 0x10FFFF


def lcs_length(candidate: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """Computes the length of a longest common subsequence of one pair of token lists."""
    both = set(candidate) & set(reference)
    number = {token: i for i, token in enumerate(both)}
    ours, theirs = ([number[t] for t in side if t in both] for side in (candidate, reference))
    if len(both) < _SURROGATES:
        return int(LCSseq.similarity("".join(map(chr, ours)), "".join(map(chr, theirs))))
    return int(LCSseq.similarity(ours, theirs))


def lcs_lengths(grams: Grams) -> np.ndarray:
    """Computes the length of a longest common subsequence of the two texts of each row, int64[rows].

    Tokens that only one side has are dropped, which does not change the length. The others become characters by their
    number within the row, so that few rows exceed the 256 distinct characters for which rapidfuzz is fastest.
    """
    at = np.flatnonzero(grams.numbers)
    text = _text(grams.numbers[at])
    parts = [text[i:j] for i, j in pairwise(np.searchsorted(at, grams.tokens.bounds).tolist())]
    return cpdist(parts[::2], parts[1::2], scorer=LCSseq.similarity, dtype=np.int32).astype(np.int64)


def _text(numbers: np.ndarray) -> str:
    """Converts numbers to characters: Latin-1 if all are below 256, else code points that skip the surrogates."""
    if numbers.max(initial=0) < 256:
        return numbers.astype(np.uint8).tobytes().decode("latin-1")
    codes = numbers + (numbers >= _SURROGATES) * 0x800
    return codes.astype("<u4").tobytes().decode("utf-32-le")
