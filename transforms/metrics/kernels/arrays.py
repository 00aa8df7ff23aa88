"""Tokens of many texts as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the texts of a chunk of n rows: its n responses, then its n references.

    Attributes:
        ids: int64, one for each token in order; equal exactly where tokens are equal, from 0 without large gaps.
        bounds: int64, 2n + 1 indices: tokens of text t are ids[bounds[t]:bounds[t + 1]].
        lines: int64, the same for the lines of all texts, the last line's end left out; empty where nobody asks.
    """

    ids: np.ndarray
    bounds: np.ndarray
    lines: np.ndarray

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.bounds) // 2

    @property
    def half(self) -> int:
        """Index of the first token of a reference."""
        return int(self.bounds[self.rows])

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each response and of each reference."""
        counts = np.diff(self.bounds)
        return counts[: self.rows], counts[self.rows :]

    def row_of_token(self) -> np.ndarray:
        """Row of each token."""
        return np.repeat(np.arange(2 * self.rows) % self.rows, np.diff(self.bounds))


def dictionary(codes: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """Ids of tokens by their content.

    Args:
        codes: Code units of all tokens, one token after the other without gaps.
        starts: Index of each token's first unit.

    Returns:
        (int64 ids, the distinct tokens as bytes, by id).
    """
    offsets = np.empty(len(starts) + 1, np.int32)
    offsets[:-1] = starts
    offsets[-1] = len(codes)
    offsets *= codes.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(codes))]
    encoded = pa.BinaryArray.from_buffers(pa.binary(), len(starts), buffers).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def relabel(ids: np.ndarray, names: Iterable[Hashable]) -> np.ndarray:
    """Ids that are equal where the names of the given ids are equal."""
    label: dict[Hashable, int] = {}
    return np.array([label.setdefault(name, len(label)) for name in names], np.int64)[ids]
