"""Scores of all rows together, from sums over the rows."""

from __future__ import annotations

import numpy as np


def pooled_f1(sums: np.ndarray) -> np.ndarray:
    """Returns F1 of sums; 0 if nothing is found, NaN if there is nothing to find.

    Args:
        sums: float64 of shape (cases, 4): found of what was given, all that was given, found of what was wanted, all
            that was wanted.
    """
    found, given, met, wanted = sums.T
    precision, recall = found / np.where(given > 0, given, 1.0), met / np.where(wanted > 0, wanted, 1.0)
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total > 0, total, 1.0)
    return np.where(given + wanted > 0, f1, np.nan)
