"""The base class of dialects, which map the rows of one family of products to the standard fields.

A dialect is a frozen dataclass without parameters, registered under a name; its methods are pure functions of one row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ...schemas.json import Json
from ..registry import register

__all__ = ["Dialect", "register"]


class Dialect(ABC):
    """Base of all dialects.

    Attributes:
        inputs: Standard fields that are inputs of the agent; those present in a row are its canonical input.
        splits: True if a row of the dataset may contain several rows, see `rows`.
        marks: Columns of which each of its rows has at least one; `None` if there are no such.
    """

    inputs: ClassVar[tuple[str, ...]] = ("prompt", "request", "inputs", "conversation")
    splits: ClassVar[bool] = False
    marks: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def recognises(self, row: dict[str, Json]) -> bool:
        """Returns true if a row is recognisably of this dialect (for `dialect: auto`)."""

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        """Splits a row of the dataset into rows with standard names.

        Raises:
            RowError: The row is malformed for this dialect.
        """
        return [row]

    @abstractmethod
    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        """Returns the standard fields that are not columns of the same name.

        Raises:
            RowError: The row is malformed for this dialect.
        """
