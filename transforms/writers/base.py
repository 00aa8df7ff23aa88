"""What a writer is: record batches of one table into one file.

A writer is a frozen dataclass registered under its format's name. The same record batches give the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Protocol

import pyarrow as pa

from ..registry import register

__all__ = ["Sink", "Writer", "register"]


class Sink(Protocol):
    """A file being written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends the rows of a batch; of Parquet, one row group."""
        ...


@dataclass(frozen=True)
class Writer(ABC):
    """Base of all writers.

    Attributes:
        compression: "auto" or one of `compressions`.
        escape_formulas: Neutralise text that a spreadsheet would run as a formula (CSV; others refuse it).
        compressions: What the format can be compressed with, the default first.
        suffix: Ending of its files.
    """

    compression: str = "auto"
    escape_formulas: bool = False
    compressions: ClassVar[tuple[str, ...]] = ("none",)
    suffix: ClassVar[str] = ""

    @property
    def codec(self) -> str:
        """The compression in force."""
        return self.compressions[0] if self.compression == "auto" else self.compression

    @property
    def ending(self) -> str:
        """Ending of the files, that of the compression included."""
        return self.suffix + (".gz" if self.codec == "gzip" else "")

    @property
    def beside(self) -> Writer:
        """The writer of the tables beside the instances table."""
        return self

    @abstractmethod
    def open(self, stream: BinaryIO, schema: pa.Schema) -> AbstractContextManager[Sink]:
        """Starts a file on a binary stream; leaving the context completes the file, the stream stays open."""


def compressed(stream: BinaryIO, codec: str) -> Any:
    """The stream, or a gzip layer over it whose bytes do not depend on the time."""
    import gzip

    return (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) if codec == "gzip" else stream
    )
