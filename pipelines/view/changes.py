"""Judges by column how each row of a run changed against an earlier run: newly failing, fixed, worse, better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...transforms.statistics.paired import Scale
from ...transforms.statistics.paired_columns import pass_or_miss, share_gains
from ..run.columns import Floats
from .table import Codes

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
        share = np.nan_to_num(share_gains(one.scale, before, after))
        worst, most = np.minimum(worst, share), np.maximum(most, share)
        (passed, missed), (passes, misses) = (pass_or_miss(one.scale, scores) for scores in (before, after))
        failing |= passed & misses
        fixed |= missed & passes
    kinds = np.select(
        [~paired, failing, fixed, worst < 0, most > 0], [_NEW, _FAILING, _FIXED, _WORSE, _BETTER], _UNCHANGED
    )
    size = np.where((kinds == _FIXED) | (kinds == _BETTER), most, -worst)
    return Codes([*KINDS], kinds.astype(np.int32)), kinds + 1 - size / (1 + size)


def _measure(scores: Floats, best: float | None) -> Floats:
    return scores if best is None else np.abs(scores - best)
