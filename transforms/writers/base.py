"""The base class of writers, which write record batches of one table to one file.

A writer is a frozen dataclass registered under the name of its format. The same record batches give the same bytes.
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
        """Appends the rows of a batch; in Parquet, as one row group."""
        ...


@dataclass(frozen=True)
class Writer(ABC):
    """Base of all writers.

    Attributes:
        compression: "auto" or one of `compressions`.
        escape_formulas: Escape text that a spreadsheet would run as a formula (CSV only; an error for other formats).
        compressions: Supported compressions, the default first.
        suffix: Ending of its file names.
    """

    compression: str = "auto"
    escape_formulas: bool = False
    compressions: ClassVar[tuple[str, ...]] = ("none",)
    suffix: ClassVar[str] = ""

    @property
    def codec(self) -> str:
        """The compression in use."""
        return self.compressions[0] if self.compression == "auto" else self.compression

    @property
    def ending(self) -> str:
        """Ending of the file names, including that of the compression."""
        return self.suffix + (".gz" if self.codec == "gzip" else "")

    @property
    def beside(self) -> Writer:
        """The writer of the tables other than the instances table."""
        return self

    @abstractmethod
    def open(self, stream: BinaryIO, schema: pa.Schema) -> AbstractContextManager[Sink]:
        """Starts a file on a binary stream; leaving the context completes the file, but does not close the stream."""


def compressed(stream: BinaryIO, codec: str) -> Any:
    """Returns the stream, or a gzip stream over it whose bytes do not depend on the time."""
    import gzip

    return (
        gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) if codec == "gzip" else stream
    )
