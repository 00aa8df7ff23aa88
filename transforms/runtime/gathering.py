"""The step that brings all elements of several collections to one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import apache_beam as beam


@dataclass
class Gather(beam.PTransform):
    """(PCollection[kind], ...) -> PCollection[tuple[int, Iterable[kind]]], one group of all, even if there are none.

    Attributes:
        kind: Type of the elements.
        marker: An element that says nothing; the group has it, too.
    """

    kind: Any
    marker: Any

    def expand(self, input_or_inputs: tuple[beam.PCollection, ...]) -> beam.PCollection:
        one = input_or_inputs[0].pipeline | beam.Create([0], reshuffle=False)
        marker = one | "Marker" >> beam.Map(lambda _: self.marker).with_output_types(self.kind)
        key = beam.Map(lambda element: (0, element)).with_output_types(tuple[int, self.kind])
        keyed = [part | f"Key{i}" >> key for i, part in enumerate((*input_or_inputs, marker))]
        return keyed | beam.Flatten() | beam.GroupByKey()  # type: ignore[return-value]  (`|` gives a PValue)
