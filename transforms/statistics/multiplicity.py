"""Adjusts p-values of a family of tests, so that many tests do not find by chance what one would not."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted by Holm, in the given order.

    Those at most alpha are significant with a probability of at most alpha for any false one among them, however the
    tests depend on each other.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min((len(p_values) - rank) * p_values[i], 1.0))
        adjusted[i] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted by Benjamini and Hochberg, in the given order.

    Of those at most alpha the expected share of false ones is at most alpha, if the tests are independent or positively
    dependent.

    Source: Benjamini and Hochberg (1995), Controlling the false discovery rate.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, lowest = [1.0] * len(p_values), 1.0
    for rank in range(len(order), 0, -1):
        i = order[rank - 1]
        lowest = min(lowest, len(order) * p_values[i] / rank)
        adjusted[i] = lowest
    return adjusted
