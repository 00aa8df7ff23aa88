"""The sections that `evaluate()` takes as keyword arguments, so that editors complete them; EvaluationConfig checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

Section = Mapping[str, Any]


class Sections(TypedDict, total=False):
    """Sections of a configuration as `EvaluationConfig` describes them, beside dataset, metrics and output.

    `dataset_options` and `output_options` are further keys of those sections.
    """

    agent: Section
    judges: Mapping[str, Section]
    baseline: str | None
    prices: Mapping[str, Section]
    currency: str
    criteria: Mapping[str, float | Section | Sequence[float | Section]] | Sequence[Section]
    slices: Sequence[str | Sequence[str]]
    gate: Section
    labels: Section
    trials: int
    budget: Section
    replay: str | None
    statistics: Section
    compat: Section
    shards: int | None
    dataset_options: Section
    output_options: Section
