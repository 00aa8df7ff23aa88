"""A Beam combine of objects that absorb each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam import coders


class Merge(beam.CombineFn):
    """Merges objects of one class by its `absorb`, whatever their order; Beam gets the class's own coder, not pickle.

    Args:
        kind: The class, whose objects are empty at first; `coders.registry` knows its coder.
        *given: What `absorb` takes beside the other object.
    """

    def __init__(self, kind: type, *given: Any) -> None:
        self.kind: Any = kind
        self.given = given
        self.with_input_types(kind).with_output_types(kind)

    def create_accumulator(self) -> Any:
        return self.kind()

    def add_input(self, mutable_accumulator: Any, element: Any) -> Any:
        mutable_accumulator.absorb(element, *self.given)
        return mutable_accumulator

    def merge_accumulators(self, accumulators: Iterable[Any], *args, **kwargs) -> Any:
        whole = self.kind()
        for one in accumulators:
            whole.absorb(one, *self.given)
        return whole

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator

    def get_accumulator_coder(self) -> coders.Coder:
        return coders.registry.get_coder(self.kind)
