"""Draws how the metrics of many runs went: a line for each metric, with its intervals and the runs that changed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .plots import Row

HEIGHT = 24


@dataclass(frozen=True)
class Trend:
    """The means of a metric over runs, in a box of 100 by `HEIGHT`.

    Attributes:
        line: The means, as the points of a polyline.
        band: The intervals around them, as the points of a polygon; "" without intervals.
        changes: Places of the runs at which the mean changed.
        last: Place of the last mean, (x, y).
    """

    line: str
    band: str
    changes: Sequence[float]
    last: tuple[float, float]


def draw_trend(places: Sequence[int], rows: Sequence[Row], changes: Sequence[int], size: int) -> Trend:
    """Draws the points of a metric.

    Args:
        places: Position of each point's run, counted from 0.
        rows: Row of the summary table of each point; none without a mean.
        changes: Positions of the runs that changed it.
        size: Number of runs.
    """
    values = [row[key] for row in rows for key in ("mean", "ci_low", "ci_high") if row[key] is not None]
    low, high = min(values), max(values)

    def at(place: int) -> float:
        return round(100 * place / max(size - 1, 1), 2)

    def height(value: float) -> float:
        return round(HEIGHT - 2 - (HEIGHT - 4) * ((value - low) / (high - low) if high > low else 0.5), 2)

    def join(points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x},{y}" for x, y in points)

    means = [(at(i), height(row["mean"])) for i, row in zip(places, rows, strict=True)]
    sides = [(at(i), row) for i, row in zip(places, rows, strict=True) if row["ci_low"] is not None]
    upper = [(x, height(row["ci_high"])) for x, row in sides]
    lower = [(x, height(row["ci_low"])) for x, row in reversed(sides)]
    return Trend(join(means), join([*upper, *lower]), [at(i) for i in changes], means[-1])
