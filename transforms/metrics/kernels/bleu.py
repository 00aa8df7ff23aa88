"""Computes sentence BLEU from its counts, bit for bit as sacrebleu 2."""

from __future__ import annotations

import math

import numpy as np

ORDERS = 4
_FLOOR, _ADDED = 0.1, 1
_LOG_OF_ZERO = -9999999999.0


def bleus(counts: np.ndarray, smooth: str = "exp", effective_order: bool = False) -> list[float | None]:
    """Computes BLEU of each pair, in [0, 1], never `None`.

    sacrebleu returns percent, and 100.00000000000004 for equal texts; the result is divided by 100 and capped at 1.

    Args:
        counts: int64[rows, 10]: clipped matches of order 1 to 4, n-grams of the response likewise, tokens of the
            response, tokens of the reference.
        smooth: Smoothing of a precision of 0: "exp" halves it again for each such order, "floor" counts 0.1 matches,
            "add-k" adds 1 to matches and n-grams above order 1, "none" keeps 0.
        effective_order: True to leave orders longer than the response out of the mean.
    """
    correct, total = counts[:, :ORDERS].copy(), counts[:, ORDERS : 2 * ORDERS].copy()
    matched = np.count_nonzero(correct, axis=1).tolist()
    if smooth == "add-k":
        correct[:, 1:] += _ADDED
        total[:, 1:] += _ADDED
    # math.log and the built-in sum, since numpy's logarithm and order of addition may differ in the last bit
    logs = [math.log(p) if p else _LOG_OF_ZERO for p in _precisions(correct, total, smooth).ravel().tolist()]
    orders = np.count_nonzero(total, axis=1).tolist() if effective_order else [ORDERS] * len(counts)
    found: list[float | None] = []
    for row, (ours, theirs) in enumerate(counts[:, 2 * ORDERS :].tolist()):
        if not matched[row]:
            found.append(0.0)
            continue
        brevity = 1.0 if ours >= theirs else math.exp(1 - theirs / ours)
        begin, used = ORDERS * row, orders[row]
        found.append(min(brevity * math.exp(sum(logs[begin : begin + used]) / used) / 100, 1.0))
    return found


def _precisions(correct: np.ndarray, total: np.ndarray, smooth: str) -> np.ndarray:
    """Returns the smoothed precisions in percent, float64[rows, 4]; 0 for orders without n-grams."""
    known, missing = total > 0, (total > 0) & (correct == 0)
    grams = np.maximum(total, 1)
    precisions = 100.0 * correct / grams
    if smooth == "exp":
        precisions = np.where(missing, 100.0 / (2.0 ** np.cumsum(missing, axis=1) * grams), precisions)
    elif smooth == "floor":
        precisions = np.where(missing, 100.0 * _FLOOR / grams, precisions)
    return np.where(known, precisions, 0.0)
