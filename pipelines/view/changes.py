"""Judges by column how each row of a run changed against an earlier run: newly failing, fixed, worse, better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...transforms.statistics.paired import Scale
from .table import Codes, Floats

KINDS = ("newly failing", "fixed", "worse", "better", "unchanged", "not in the first run")
"""Kinds of changes, in the order of their rows."""
_FAILING, _FIXED, _WORSE, _BETTER, _UNCHANGED, _NEW = range(len(KINDS))

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Scored(NamedTuple):
    """A metric of a comparison: what its scores mean, and those of each row in both runs, NaN where there is none.

    Attributes:
        scale: What the scores mean or, with a `best` one within the range, their distances from it.
        best: The best score if it is within the range, else `None`.
        before, after: Scores of each row.
    """

    scale: Scale
    best: float | None
    before: Floats
    after: Floats


def judge_rows(metrics: Mapping[str, Scored], paired: Mask) -> tuple[Codes, Floats]:
    """Judges each row.

    Args:
        metrics: The deciding metrics by name.
        paired: Whether a row is in the first run as well.

    Returns:
        (kind of change, what the rows are sorted by: first by kind, then the largest change first).
    """
    failing, fixed = np.zeros(len(paired), np.bool_), np.zeros(len(paired), np.bool_)
    worst, most = np.zeros(len(paired)), np.zeros(len(paired))
    for one in metrics.values():
        before, after = (_measure(scores, one.best) for scores in (one.before, one.after))
        changed = np.isfinite(before) & np.isfinite(after) & (before != after)
        gain = np.where(changed, before - after if one.scale.lower_is_better else after - before, 0.0)
        whole = one.scale.most or np.maximum(np.maximum(np.abs(before), np.abs(after)), np.finfo(float).tiny)
        share = np.where(changed, gain / whole, 0.0)
        worst, most = np.minimum(worst, share), np.maximum(most, share)
        (passed, missed), (passes, misses) = (_pass(one.scale, scores) for scores in (before, after))
        failing |= changed & passed & misses
        fixed |= changed & missed & passes
    kinds = np.select(
        [~paired, failing, fixed, worst < 0, most > 0], [_NEW, _FAILING, _FIXED, _WORSE, _BETTER], _UNCHANGED
    )
    size = np.where((kinds == _FIXED) | (kinds == _BETTER), most, -worst)
    return Codes([*KINDS], kinds.astype(np.int32)), kinds + 1 - size / (1 + size)


def _measure(scores: Floats, best: float | None) -> Floats:
    return scores if best is None else np.abs(scores - best)


def _pass(scale: Scale, scores: Floats) -> tuple[Mask, Mask]:
    """Tells which scores pass and which do not, as `Scale.passes`; of some neither is known."""
    if scale.threshold is not None:
        bound = scale.threshold.value
        return (scores <= bound, scores > bound) if scale.threshold.at_most else (scores >= bound, scores < bound)
    zero, one = scores == 0, scores == 1
    return (zero, one) if scale.lower_is_better else (one, zero)
