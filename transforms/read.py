"""The step that reads the files of a dataset in ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin

from ..schemas.batch import RowBlock
from .readers._files import FileInfo, readers_of
from .readers.base import FileRange, Reader
from .runtime.coders import coder_of

coder_of(FileRange)


@dataclass
class ReadRows(beam.PTransform):
    """PBegin -> PCollection[RowBlock]: the rows of all files, each range read on its own.

    Attributes:
        files: The files, as `expand` of the readers lists them.
        columns: Declared type of each declared column.
        options: Other settings of reading, by the names of the readers' parameters.
    """

    files: Sequence[FileInfo]
    columns: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, pbegin: PBegin) -> beam.PCollection[RowBlock]:
        readers = readers_of(self.files, self.columns, self.options)
        return (  # type: ignore[return-value]  (`|` gives a PValue)
            pbegin
            | "Files" >> beam.Create([tuple(f) for f in self.files]).with_output_types(tuple[str, int, str])
            | "Split" >> beam.ParDo(_Split(readers)).with_output_types(tuple[str, FileRange])
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_Read(readers)).with_output_types(RowBlock)
        )


class _Split(beam.DoFn):
    def __init__(self, readers: dict[str, Reader]) -> None:
        self._readers = readers

    def process(self, element: tuple[str, int, str]) -> Iterator[tuple[str, FileRange]]:
        path, size, format_ = element
        for part in self._readers[format_].split(path, size):
            yield format_, part


class _Read(beam.DoFn):
    def __init__(self, readers: dict[str, Reader]) -> None:
        self._readers = readers

    def process(self, element: tuple[str, FileRange]) -> Iterator[RowBlock]:
        format_, part = element
        return self._readers[format_].read(part)
