"""What a dialect is: where the rows of one family of products keep the standard fields.

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
        inputs: Standard fields that are what the agent is given: those present in a row are its canonical input.
        splits: Whether a row of the dataset may hold several rows: `rows` is asked.
    """

    inputs: ClassVar[tuple[str, ...]] = ("prompt", "request", "inputs", "conversation")
    splits: ClassVar[bool] = False

    @abstractmethod
    def recognises(self, row: dict[str, Json]) -> bool:
        """Whether a row shows that it was written in this dialect (`dialect: auto` asks)."""

    def rows(self, row: dict[str, Json]) -> list[dict[str, Json]]:
        """The rows that a row of the dataset holds, in plain names.

        Raises:
            RowError: The row cannot be read in this dialect.
        """
        return [row]

    @abstractmethod
    def fields(self, row: dict[str, Json]) -> dict[str, Json]:
        """Standard fields that the row keeps elsewhere than under their own name.

        Raises:
            RowError: The row cannot be read in this dialect.
        """
