"""Describes how well a judge agrees with people, as a row of the validity table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from ...schemas.json import Json
from .agreement import Estimate, Joint, alpha, auc, differ, kappa, rogan_gladen, spearman, square
from .criteria import Threshold
from .labelled import Labelled, rows_of

MAX_CATEGORIES = 20
"""Most values that kappa takes for categories."""

_Shares: TypeAlias = Mapping[str, tuple[Estimate, float]]
"""Accuracy, sensitivity and specificity as far as they are defined, each with the number of labels it rests on."""
_Statistic: TypeAlias = tuple[str, Estimate | None, float, tuple[float, float], str]
"""A statistic: its name, its value if it has one, the labels it rests on, its ends, and why it has none."""
_UNIT, _SIGNED = (0.0, 1.0), (-1.0, 1.0)
_NO_LABEL = "no row with a score has a label"
_NO_PASS = "neither are all values 0 or 1, nor does a criterion give a threshold"
_NO_CATEGORY = f"more than {MAX_CATEGORIES} different values"
_ONE_SIDE = "people pass all rows or none"
_ALL_EQUAL = "all values are equal"


def describe_validity(
    labelled: Labelled, passed: float | None, size: int, threshold: Threshold | None, confidence: float
) -> tuple[dict[str, float | None], list[str]]:
    """Computes the statistics of agreement, each with its interval, and the reasons why some are `None`.

    Labels with unequal weights count by their weight; intervals are then those of the number of equal labels that would
    have the same variance (Kish 1965).

    Args:
        labelled: The rows with a label.
        passed: Share of all scores that pass; `None` if none is scored.
        size: Number of all scores.
        threshold: What passes; by default 1 of 0 and 1.
        confidence: Level of the intervals.
    """
    joint, n = _join(labelled)
    if not joint:
        return {}, [_NO_LABEL]
    values = {value for pair in joint for value in pair}
    passes = threshold.met if threshold else bool if values <= {0.0, 1.0} else None
    shares = {} if passes is None else _shares(joint, n, passes)
    found: dict[str, float | None] = {}
    reasons: list[str] = []
    for name, estimate, of, ends, why in (
        *_estimate_shares(shares, passes is not None),
        *_estimate_agreement(joint, n, passes),
        _correct_share(shares, passed, size, passes is not None),
    ):
        if estimate is None:
            reasons.append(f"{name}: {why}")
            continue
        low, high = estimate.interval(of, ends, confidence)
        found |= {name: estimate.value, f"{name}_ci_low": low, f"{name}_ci_high": high}
    return found, reasons


def validity_json(labels: int, found: dict[str, float | None], reasons: list[str]) -> dict[str, Json]:
    """Puts the statistics of a row together; the reasons become one text."""
    return {"labels": labels, **found, "reason": "; ".join(reasons) or None}


def _join(labelled: Labelled) -> tuple[Joint, float]:
    """Returns the shares of pairs of a score and a label, and the number of labels of equal weight they are worth."""
    rows = rows_of(labelled)
    total = math.fsum(weight * times for (_, _, weight), times in rows)
    if not total:
        return {}, 0.0
    sums: Counter[tuple[float, float]] = Counter()
    for (judge, human, weight), times in rows:
        sums[judge, human] += weight * times  # type: ignore[assignment]  (a Counter of floats)
    squares = math.fsum(weight * weight * times for (_, _, weight), times in rows)
    return {pair: part / total for pair, part in sums.items()}, total * total / squares


def _shares(joint: Joint, n: float, passes: Callable[[float], bool]) -> dict[str, tuple[Estimate, float]]:
    """Returns accuracy, sensitivity and specificity, each with the number of labels it rests on."""
    cells: dict[tuple[bool, bool], list[float]] = {(a, b): [] for a in (False, True) for b in (False, True)}
    for (judge, human), p in joint.items():
        cells[bool(passes(judge)), bool(passes(human))].append(p)
    share = {cell: math.fsum(parts) for cell, parts in cells.items()}
    right = {
        "accuracy": (share[True, True] + share[False, False], 1.0),
        "sensitivity": (share[True, True], share[True, True] + share[False, True]),
        "specificity": (share[False, False], share[False, False] + share[True, False]),
    }
    found = {}
    for name, (part, whole) in right.items():
        if whole:
            value = min(part / whole, 1.0)
            found[name] = Estimate(value, math.sqrt(value * (1 - value) / (n * whole))), n * whole
    return found


def _estimate_shares(shares: _Shares, defined: bool) -> Iterator[_Statistic]:
    for name in ("accuracy", "sensitivity", "specificity"):
        estimate, of = shares.get(name, (None, 0.0))
        why = f"people {'fail' if name == 'sensitivity' else 'pass'} all rows" if defined else _NO_PASS
        yield name, estimate, of, _UNIT, why


def _estimate_agreement(joint: Joint, n: float, passes: Callable[[float], bool] | None) -> Iterator[_Statistic]:
    values = {value for pair in joint for value in pair}
    few = len(values) <= MAX_CATEGORIES
    for name, distance in (("kappa", differ), ("weighted_kappa", square)):
        yield name, kappa(joint, n, distance) if few else None, n, _SIGNED, _ALL_EQUAL if few else _NO_CATEGORY
    distance = differ if values <= {0.0, 1.0} else square
    yield "alpha", alpha([(pair, p * n) for pair, p in sorted(joint.items())], distance), n, _SIGNED, _ALL_EQUAL
    why = _NO_PASS if passes is None else _ONE_SIDE
    yield "auc", None if passes is None else auc(joint, n, passes), n, _UNIT, why
    yield "spearman", spearman(joint, n), n, _SIGNED, "all scores or all labels are equal"


def _correct_share(shares: _Shares, passed: float | None, size: int, defined: bool) -> _Statistic:
    """Returns the share of all rows that people would pass."""
    name = "rogan_gladen"
    if not defined or passed is None or not {"sensitivity", "specificity"} <= shares.keys():
        return name, None, 0.0, _UNIT, _ONE_SIDE if defined else _NO_PASS
    (sensitivity, passing), (specificity, failing) = shares["sensitivity"], shares["specificity"]
    found = rogan_gladen(passed, sensitivity.value, specificity.value, (float(size), passing, failing))
    why = f"sensitivity {sensitivity.value:.3g} + specificity {specificity.value:.3g} <= 1"
    return name, found, passing + failing, _UNIT, why
