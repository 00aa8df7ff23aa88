"""Result files of Google's ADK in place of the instances table; `adk web` can show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa

from ...schemas.formats.adk_config import Criterion
from ...schemas.formats.adk_result import case_result, case_verdict, result_file
from ..registry import build, find
from .base import Writer, register


@register("writer", "adk_result")
@dataclass(frozen=True)
class AdkResultFiles(Writer):
    """Writes ADK's EvalSetResult files, one result per file; summary and errors are JSON lines.

    In a run over several eval sets, each case has the id of its own set, and a file has the id of its first case's set.
    """

    criteria: Sequence[Criterion] = ()
    lenient: bool = False

    suffix: ClassVar = ".evalset_result.json"

    @property
    def beside(self) -> Writer:
        return build(find("writer", "jsonl"), {}, "output")

    @contextmanager
    def open(self, stream: BinaryIO, schema: pa.Schema) -> Iterator[_ResultSink]:
        sink = _ResultSink(stream, self)
        yield sink
        sink.end()


class _ResultSink:
    def __init__(self, out: Any, writer: AdkResultFiles) -> None:
        self.out, self.writer = out, writer
        self.started = False

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            verdict = case_verdict(row, self.writer.criteria, self.writer.lenient)
            self._start(verdict.eval_set_id)
            *_, case, end = result_file("", "", [case_result(row, verdict)])
            self.out.write(case if self.first else b"," + case)
            self.first, self.rest = False, end

    def _start(self, set_id: str) -> None:
        if not self.started:
            head, self.rest = result_file(set_id, set_id or "evalbeam", ())
            self.out.write(head)
            self.started = self.first = True

    def end(self) -> None:
        self._start("")
        self.out.write(self.rest)
