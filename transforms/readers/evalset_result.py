"""Result files of Google's Agent Development Kit, one row per case with its recorded answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from ...schemas.formats.adk_recorded import SUFFIX, read_recorded
from .base import FileRange, Reader, Record, assemble, open_input, register


@register("reader", "evalset_result")
@dataclass(frozen=True)
class EvalSetResultReader(Reader):
    """Reads `.evalset_result.json` of `adk eval` and `adk web` as recorded answers. A file is one range."""

    suffixes: ClassVar = (SUFFIX,)

    def split(self, file: str, size: int) -> list[FileRange]:
        return [FileRange(file, 0, 0, None)]

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        with open_input(part.file) as source:
            raw = source.stream.read()
            damage = source.damage
        yield from assemble(part, self._records(raw, damage))

    def _records(self, raw: bytes, damage: RowError | None) -> Iterator[Record]:
        try:
            cases = read_recorded(raw)
        except RowError as error:
            yield Record(1, 1, damage or error, raw)
            return
        for number, case in enumerate(cases, 1):
            try:
                yield Record(number, number, case if isinstance(case, RowError) else self.tidy(case))
            except RowError as error:
                yield Record(number, number, error)
