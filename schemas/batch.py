"""What travels between steps: rows in batches, to and from bytes (the Beam coders are in transforms/coders.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .instance import Example, Instance, Json
from .result import Rejected

Row = TypeVar("Row", Instance, Example)

MAX_ROWS = 1024
"""Rows of one batch at most."""
MAX_BYTES = 8 << 20
"""Bytes of one batch's JSON at most (but for a single larger row)."""


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows as a reader found them, in the order of their file.

    Attributes:
        file: Path as given.
        range: Number of the byte range of the file.
        rows: (line within the range counted from 1, row).
        rejected: Lines of the block that are no rows.
        lines: Lines of the range up to and including this block's last one.
    """

    file: str
    range: int
    rows: list[tuple[int, dict[str, Json]]]
    rejected: list[Rejected]
    lines: int


@dataclass(frozen=True, slots=True)
class Batch(Generic[Row]):
    """Rows of one shard and one output part, in order of instance_id and trial; all trials of an instance together.

    Attributes:
        rows: At most `MAX_ROWS`, instances or examples.
        part: Number of the output part.
        columns: (name, type) of the dataset's columns, as found over the whole dataset.
    """

    rows: tuple[Row, ...]
    part: int = 0
    columns: tuple[tuple[str, str], ...] = ()
