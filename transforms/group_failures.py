"""The steps of the failure_groups table: each failing row stands in exactly one group, see statistics/failures.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from ..schemas.findings import FAILURE_GROUPS
from ..schemas.result import Rejected, ScoredBatch
from ..schemas.run_folder import FAILURES
from ..schemas.tables import json_text, table
from .facts import DatasetStats
from .runtime.coders import coder_of
from .runtime.gathering import Gather
from .runtime.merging import Merge
from .statistics.failures import FailureTest, Messages, failure_rows, group_batch, group_rejected
from .write import WrittenFile, write_table
from .writers.base import Writer

coder_of(Messages)


@dataclass
class GroupFailures(beam.PTransform):
    """(rejected: PCollection[Rejected], scored: PCollection[ScoredBatch]) -> PCollection[WrittenFile], one file.

    Attributes:
        tests: When a score is a failure, by metric in the order of the configuration.
        facts: Singleton side input.
        output: Folder of the run.
        writer: Writer of the format.
    """

    tests: tuple[FailureTest, ...]
    facts: AsSingleton
    output: str
    writer: Writer

    def expand(
        self, input_or_inputs: tuple[beam.PCollection[Rejected], beam.PCollection[ScoredBatch]]
    ) -> beam.PCollection[WrittenFile]:
        """Wires the steps: groups of batches, a lifted combine for each kind, metric and code, one file."""
        rejected, scored = input_or_inputs
        group = tuple[str, Messages]
        groups = (
            (
                rejected | "RejectedRows" >> beam.FlatMap(group_rejected).with_output_types(group),
                scored | "FailingRows" >> beam.FlatMap(group_batch, self.tests).with_output_types(group),
            )
            | beam.Flatten()
            | "MergeGroups" >> beam.CombinePerKey(Merge(Messages)).with_output_types(group)
        )
        write = beam.Map(self._write, self.facts).with_output_types(WrittenFile)
        return (groups,) | Gather(group, ("", Messages())) | "WriteGroups" >> write  # type: ignore[return-value]  (`|` gives a PValue)

    def _write(self, found: tuple[int, Iterable[tuple[str, Messages]]], facts: DatasetStats) -> WrittenFile:
        before = facts.lines_before()

        def name_place(place: list[Any]) -> str:
            if len(place) == 2:
                return place[0]
            file, range_, line = place
            return f"{file}:{line + before.get((file, range_), 0)}" if line else file

        rows = failure_rows((one for one in found[1] if one[0]), name_place)
        shown = [{**row, "examples": json_text(row["examples"])} for row in rows]
        records = [table(shown, FAILURE_GROUPS)] if shown else []
        name = f"{FAILURES}{self.writer.ending}"
        return write_table(FAILURES, name, records, FAILURE_GROUPS, self.output, self.writer)
