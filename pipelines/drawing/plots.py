"""Geometry of plots: positions in percent of the width, so that a plot fits any width without a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...schemas.json import Json

Row = dict[str, Json]
Format = Callable[[float | None], str]

MOST_TICKS = 5
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Axis:
    """A linear axis from `low` to `high`."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Returns the place of a value in percent of the width; values beyond an end are placed there."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(share, 0.0), 1.0), 2)

    def find(self, value: float | None) -> float | None:
        """Returns the place of a value, `None` of `None`."""
        return None if value is None else self.at(value)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """(place in percent, label) of at most `MOST_TICKS` round values, the ends among them where they are round."""
        step = _find_step(self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [(self.at(i * step), f"{i * step:.6g}") for i in range(first, last + 1)]


@dataclass(frozen=True)
class Mark:
    """One line of a forest plot: a mean with its interval.

    Attributes:
        name: What is drawn.
        mean, low, high: Places in percent; `None` if not known.
        value, interval: The same as text.
        note: Further text, such as the number of rows.
        verdict: A verdict; "" for none.
        limit: Place of the threshold.
    """

    name: str
    mean: float | None
    low: float | None
    high: float | None
    value: str
    interval: str
    note: str = ""
    verdict: str = ""
    limit: float | None = None


@dataclass(frozen=True)
class Forest:
    """Marks on a common axis; `reference` is the place of a line through all, `hidden` the number of marks left out."""

    axis: Axis
    marks: Sequence[Mark]
    title: str = ""
    reference: float | None = None
    hidden: int = 0


@dataclass(frozen=True)
class Histogram:
    """Counts of values in bins of equal width.

    Attributes:
        title: What is counted.
        path: The bars as a path in a box of 100 by 40.
        low, high: Ends of the axis, as text.
        note: Number of values.
        most: Number of values in the largest bin.
    """

    title: str
    path: str
    low: str
    high: str
    note: str
    most: str


def make_axis(ends: tuple[float, float] | None, values: Iterable[float | None]) -> Axis:
    """Builds the axis of a metric: its range, or round ends around the values, with zero among them."""
    if ends is not None:
        return Axis(min(ends), max(ends))
    known = [v for v in values if v is not None and math.isfinite(v)]
    low, high = min(0.0, *known, 0.0), max(0.0, *known, 0.0)
    if low == high:
        return Axis(0.0, 1.0)
    step = _find_step(high - low)
    return Axis(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


def _find_step(span: float) -> float:
    """Returns the smallest round step that divides a span into less than `MOST_TICKS` parts."""
    base = 10.0 ** math.floor(math.log10(span / (MOST_TICKS - 1)))
    return next((base * s for s in _STEPS if span / (base * s) <= MOST_TICKS - 1 + 1e-9), base * 10)


def draw_bars(counts: Sequence[int]) -> str:
    """Draws counts as one path in a box of 100 by 40; a count above zero is at least one unit high."""
    most, width = max(counts, default=0), 100 / max(len(counts), 1)
    parts = []
    for i, count in enumerate(counts):
        if count:
            height = max(40 * count / most, 1.0)
            parts.append(f"M{i * width + 0.4:.4g} 40v-{height:.4g}h{width - 0.8:.4g}v{height:.4g}z")
    return "".join(parts)
