"""Tokens of many texts as arrays."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a chunk of n rows: for each row the tokens of the response, then those of the reference.

    Attributes:
        ids: int32, id of each token in order, >= 0; equal if and only if the tokens are equal.
        bounds: int64, 2n + 1 indices: the tokens of text t are ids[bounds[t]:bounds[t + 1]].
        lines: int64, start indices of the lines of all texts; empty if lines are not needed.
    """

    ids: np.ndarray
    bounds: np.ndarray
    lines: np.ndarray

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.bounds) // 2

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of tokens of each response and of each reference."""
        counts = np.diff(self.bounds)
        return counts[::2], counts[1::2]

    def sides(self) -> np.ndarray:
        """Returns bool[tokens], true for tokens of references."""
        return np.repeat(np.tile((False, True), self.rows), np.diff(self.bounds))

    def row_of_token(self) -> np.ndarray:
        """Returns the row of each token, int32[tokens]."""
        return np.repeat(np.arange(self.rows, dtype=np.int32), np.diff(self.bounds[::2]))


def changes(values: np.ndarray) -> np.ndarray:
    """Returns 0, the indices at which a value differs from the previous one, and the length; only 0 without values."""
    if not len(values):
        return np.zeros(1, np.int64)
    inner = np.flatnonzero(values[1:] != values[:-1])
    inner += 1
    return np.concatenate(([0], inner, [len(values)]))


def running(values: np.ndarray) -> np.ndarray:
    """Returns the sums of the values before each index, and of all values, int32[n + 1]."""
    sums = np.zeros(len(values) + 1, np.int32)
    np.cumsum(values, dtype=np.int32, out=sums[1:])
    return sums


def dictionary(content: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    """Assigns ids to pieces of text, equal ids to equal pieces.

    Args:
        content: The pieces, concatenated, in units of one or more bytes.
        lengths: Number of units of each piece.

    Returns:
        (int32 id of each piece, the distinct pieces by id).
    """
    offsets = running(lengths)
    offsets *= content.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    encoded = pa.BinaryArray.from_buffers(pa.binary(), len(lengths), buffers).dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary


def listed(values: pa.Array) -> list[bytes]:
    """Converts values without NUL bytes to Python objects; four times as fast as `to_pylist`."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    return pc.call_function("binary_join", [whole, b"\0"])[0].as_py().split(b"\0")


def relabel(ids: np.ndarray, names: Iterable[Hashable]) -> np.ndarray:
    """Returns new ids, which are equal if and only if the names of the given ids are equal."""
    label: dict[Hashable, int] = {}
    return np.array([label.setdefault(name, len(label)) for name in names], np.int32)[ids]
