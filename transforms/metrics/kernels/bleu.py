"""Sentence BLEU from its counts, number for number as sacrebleu 2 computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

ORDERS = 4
SMOOTHINGS: dict[str, float] = {"exp": 0.0, "floor": 0.1, "add-k": 1.0, "none": 0.0}
"""Smoothing methods, and the value of those that have one."""
_LOG_OF_ZERO = -9999999999.0


def bleu(
    correct: Sequence[int],
    total: Sequence[int],
    lengths: tuple[int, int],
    smooth: str = "exp",
    effective_order: bool = False,
) -> float:
    """BLEU of one pair in [0, 1].

    sacrebleu gives percent and 100.00000000000004 for equal texts: the result is divided by 100 and cut at 1.

    Args:
        correct: Clipped matches of order 1 to 4.
        total: N-grams of the response of order 1 to 4.
        lengths: Tokens of the response and of the reference.
        smooth: What a precision of 0 becomes: "exp" halves once more with each, "floor" counts 0.1 matches, "add-k"
            adds 1 to matches and n-grams above order 1, "none" leaves 0.
        effective_order: Whether orders longer than the response are left out of the mean.
    """
    if not any(correct):
        return 0.0
    value, halving, last = SMOOTHINGS[smooth], 1.0, ORDERS
    precisions = [0.0] * ORDERS
    for order in range(ORDERS):
        add = value if smooth == "add-k" and order else 0
        matches, all_grams = correct[order] + add, total[order] + add
        if all_grams == 0:
            break
        if effective_order:
            last = order + 1
        if matches:
            precisions[order] = 100.0 * matches / all_grams
        elif smooth == "exp":
            halving *= 2
            precisions[order] = 100.0 / (halving * all_grams)
        elif smooth == "floor":
            precisions[order] = 100.0 * value / all_grams
    logs = [math.log(p) if p else _LOG_OF_ZERO for p in precisions[:last]]
    return min(_brevity(*lengths) * math.exp(sum(logs) / last) / 100, 1.0)


def _brevity(ours: int, theirs: int) -> float:
    return 1.0 if ours >= theirs else math.exp(1 - theirs / ours)
