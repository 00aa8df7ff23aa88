"""Partial aggregates over instances instead of rows: what k trials of an instance do."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from ...schemas.instance import Example
from ...schemas.result import ScoreColumn, ScoredBatch, SliceKey, Status
from ...schemas.values import slice_text
from .accumulators import Accumulator
from .criteria import Threshold
from .pass_rates import PassRate
from .slices import MetricFacts, Partials

Trials: TypeAlias = list[list[int]]
"""Positions of the trials of each instance."""


def pass_partials(
    batch: ScoredBatch,
    slices: Sequence[tuple[str, ...]],
    facts: Collection[MetricFacts],
    *,
    resample: bool = False,
    cluster: Sequence[str] = (),
) -> list[tuple[SliceKey, Accumulator]]:
    """Computes what the instances of a batch add to the rows pass^k and pass@k of the summary.

    An instance stands in a slice with those of its trials that are in it. Trials that the agent failed did not pass.
    Trials without a score for another reason are left out: it is not known whether they passed. Instances with less
    than k trials that count are skipped.

    Args:
        batch: Scored examples, all trials of an instance together.
        slices: Column lists, each once; the empty one is the whole dataset.
        facts: The metrics to aggregate, all with `passes`, whose metrics are in `batch.scores`.
        resample: Whether means get replicates of the bootstrap.
        cluster: Columns whose equal values put instances into one cluster. Where the trials of an instance differ in
            them, its first one decides.
    """
    if not batch.examples or not facts:
        return []
    rates = {one.name: one.passes for one in facts if one.passes is not None}
    passed = {rate.metric: _find_passed(batch.scores[rate.metric], rate.threshold) for rate in rates.values()}
    found: list[tuple[SliceKey, Accumulator]] = []
    for columns in slices:
        trials = _group_trials(batch.examples, columns)
        examples = [batch.examples[places[0]] for places in trials]
        counts = {name: _count_trials(trials, each) for name, each in passed.items()}
        scores = {name: _rate_instances(rate, counts[rate.metric]) for name, rate in rates.items()}
        part = ScoredBatch(examples, scores, batch.part, batch.columns)
        found += Partials([columns], facts, resample=resample, cluster=cluster).count(part)
    return found


def _find_passed(column: ScoreColumn, threshold: Threshold) -> list[bool | None]:
    """Returns whether each row passed; `None` if that is not known."""
    found: list[bool | None] = [
        threshold.met(value) if value is not None and math.isfinite(value) and i not in column.status else None
        for i, value in enumerate(column.values)
    ]
    for i, error in column.errors.items():
        if error.code == "agent_failed" and found[i] is None:
            found[i] = False
    return found


def _group_trials(examples: Sequence[Example], columns: Sequence[str]) -> Trials:
    """Groups the rows by instance and, within it, by the values of columns."""
    found: dict[tuple[str | None, ...], list[int]] = {}
    for i, example in enumerate(examples):
        row = example.instance.row
        key = (example.instance.instance_id, *(slice_text(row.get(name)) for name in columns))
        found.setdefault(key, []).append(i)
    return list(found.values())


def _count_trials(trials: Trials, passed: Sequence[bool | None]) -> list[tuple[int, int]]:
    """Counts for each instance the trials that count, and those that passed."""
    known = ([passed[i] for i in places if passed[i] is not None] for places in trials)
    return [(len(one), one.count(True)) for one in known]


def _rate_instances(rate: PassRate, counts: Iterable[tuple[int, int]]) -> ScoreColumn:
    values = [rate.of(*one) for one in counts]
    status: dict[int, Status] = {i: "skipped" for i, value in enumerate(values) if value is None}
    return ScoreColumn(values, status)
