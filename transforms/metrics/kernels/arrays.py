"""Tokens of many texts as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of the texts of a chunk of n rows, each row's response and then its reference.

    Attributes:
        ids: int32, one for each token in order; equal exactly where tokens are equal; none is negative.
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

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of each response and of each reference."""
        counts = np.diff(self.bounds)
        return counts[::2], counts[1::2]

    def sides(self) -> np.ndarray:
        """bool, for each token whether it is the reference's."""
        return np.repeat(np.tile((False, True), self.rows), np.diff(self.bounds))

    def row_of_token(self) -> np.ndarray:
        """int32, row of each token."""
        return np.repeat(np.arange(self.rows, dtype=np.int32), np.diff(self.bounds[::2]))


def changes(values: np.ndarray) -> np.ndarray:
    """0, the places where a value differs from the one before, and the length; nothing but the 0 for no values."""
    if not len(values):
        return np.zeros(1, np.int64)
    inner = np.flatnonzero(values[1:] != values[:-1])
    inner += 1
    return np.concatenate(([0], inner, [len(values)]))


def running(values: np.ndarray) -> np.ndarray:
    """int32, the sum of the values before each, and of all."""
    sums = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, dtype=np.int32, out=sums[1:])
    return sums


def dictionary(content: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """Ids of pieces of a text by what they hold.

    Args:
        content: The pieces, one after the other, in units of one or more bytes.
        lengths: Units of each.

    Returns:
        (int32 id of each piece, the distinct pieces by id).
    """
    offsets = running(lengths)
    offsets *= content.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    encoded = pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers).dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary


def listed(values: pa.Array) -> list[bytes]:
    """The values, none of which holds a NUL byte, as Python objects: four times as fast as `to_pylist`."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.call_function("binary_join", [whole, b"\0"])[0].as_py().split(b"\0")


def relabel(ids: np.ndarray, names: Iterable[Hashable]) -> np.ndarray:
    """Ids that are equal where the names of the given ids are equal."""
    label: dict[Hashable, int] = {}
    return np.array([label.setdefault(name, len(label)) for name in names], np.int32)[ids]
