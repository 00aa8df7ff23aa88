"""Eval sets of Google's Agent Development Kit, one row per case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...schemas.batch import RowBlock
from ...schemas.errors import RowError
from ...schemas.formats.adk import SUFFIXES, read_each_case
from .base import FileRange, Reader, Record, assemble, open_input, register, selection


@register("reader", "evalset")
@dataclass(frozen=True)
class EvalSetReader(Reader):
    """Reads ADK eval sets, in any form that schemas/formats/adk.py supports, or JSON lines of EvalCases.

    Rows have `eval_set_id`, `eval_id`, `conversation` (or `conversation_scenario`), `session_input`, and all other
    keys of the cases. A path "set.evalset.json:a,b" selects the cases `a` and `b`. A file is one range.
    """

    suffixes: ClassVar = SUFFIXES
    selects: ClassVar = True

    def split(self, file: str, size: int) -> list[FileRange]:
        return [FileRange(file, 0, 0, None)]

    def read(self, part: FileRange) -> Iterator[RowBlock]:
        path, wanted = selection(part.file)
        with open_input(path) as source:
            raw = source.stream.read()
            damage = source.damage
        yield from assemble(part, self._records(raw, damage, path, wanted))

    def _records(self, raw: bytes, damage: RowError | None, path: str, wanted: tuple[str, ...]) -> Iterator[Record]:
        try:
            cases = read_each_case(raw, path)
        except RowError as error:
            yield Record(1, 1, damage or error, raw)
            return
        known = {case.get("eval_id") for _, case in cases if not isinstance(case, RowError)}
        for number, case in cases:
            if isinstance(case, RowError):
                yield Record(number, number, case)
            elif not wanted or case.get("eval_id") in wanted:
                try:
                    yield Record(number, number, self.tidy(case))
                except RowError as error:
                    yield Record(number, number, error)
        last = cases[-1][0] if cases else 0
        for name in wanted:
            if name not in known:
                shown = ", ".join(map(str, sorted(map(str, known))[:10]))
                error = RowError("unknown_eval_case", f"the eval set has no case {name!r} (allowed: {shown})")
                yield Record(last + 1, last + 1, error)
