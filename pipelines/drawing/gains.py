"""Draws the comparison of two runs: the gain of each metric with its interval, zero and the margin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ...schemas.comparison import Difference
from .plots import Axis, Forest, Mark, make_axis
from .words import NOTHING, count, number, signed

_ORDER = ("WORSE", "INCONCLUSIVE", "NO_WORSE", "BETTER")
_WORDS = {"WORSE": "worse", "INCONCLUSIVE": "inconclusive", "NO_WORSE": "no worse", "BETTER": "better"}


@dataclass(frozen=True)
class Gain(Mark):
    """A mark with both means, as text, and whether the metric decides."""

    before: str = ""
    after: str = ""
    decides: bool = True


def draw_gains(differences: Iterable[Difference], deciding: Collection[str], by_slice: bool = False) -> list[Forest]:
    """Draws gains, those of metrics with a range up to 1 on a common axis first.

    Args:
        differences: What to draw.
        deciding: Metrics that decide.
        by_slice: Draw a plot for each metric, with its slices as marks, the worst first.
    """
    groups: dict[str, list[Difference]] = {}
    for one in differences:
        groups.setdefault(one.metric if by_slice or not _is_share(one) else "", []).append(one)
    plots = []
    for key, group in sorted(groups.items(), key=lambda item: not by_slice and item[0] != ""):
        axis = _make_axis(group)
        worst = sorted(group, key=lambda d: 0.0 if d.gain is None else d.gain) if by_slice else group
        names = [", ".join(v or NOTHING for _, v in d.slice) if by_slice else d.metric for d in worst]
        marks = [_draw(d, name, axis, d.metric in deciding) for d, name in zip(worst, names, strict=True)]
        plots.append(Forest(axis, marks, key, axis.at(0.0)))
    return plots


def count_verdicts(verdict: str, decisive: Sequence[Difference]) -> tuple[str, list[str]]:
    """Returns the verdict of a comparison and how many differences that decide have which verdict."""
    counts = {word: sum(d.verdict == word for d in decisive) for word in _ORDER}
    both = max((d.instances for d in decisive if not d.slice), default=0)
    parts = [f"{number:,} {_WORDS[word]}" for word, number in counts.items() if number]
    return verdict, [*parts, f"{count(both, 'instance')} in both"]


def _is_share(one: Difference) -> bool:
    """Returns true if gain and means are between -1 and 1, and the metric has a range."""
    values = (one.gain, one.gain_ci_low, one.gain_ci_high, one.before, one.after)
    return one.bounds_low is not None and all(v is None or abs(v) <= 1 for v in values)


def _make_axis(group: Iterable[Difference]) -> Axis:
    values = [v for d in group for v in (d.gain, d.gain_ci_low, d.gain_ci_high, d.margin) if v is not None]
    most = max(map(abs, values), default=1.0)
    return make_axis(None, [-most, most])


def _draw(one: Difference, name: str, axis: Axis, decides: bool) -> Gain:
    low, high = one.gain_ci_low, one.gain_ci_high
    return Gain(
        name,
        axis.find(one.gain),
        axis.find(low),
        axis.find(high),
        signed(one.gain),
        NOTHING if low is None else f"{signed(low)} … {signed(high)}",
        f"{one.pairs:,}",
        one.verdict if one.pairs else "",
        axis.at(-one.margin) if one.margin else None,
        number(one.before),
        number(one.after),
        decides,
    )
