"""What a run knows of the metric that it follows: whether its mean is decided, and since which row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import orjson

from ...schemas.json import Json
from ...schemas.result import Summary
from .sequential import Decision, mean_sequence, share_sequence

METHOD = "sequential"
"""`ci_method` of the followed metric: its interval is a confidence sequence."""
_MARK = ", stopped"
"""Ends the `ci_method` of all other intervals of a run that may stop early."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is known of the mean of a metric after some rows.

    Attributes:
        metric: Name of the metric.
        threshold: The mean that it is held against.
        confidence: Level of the confidence sequence.
        rows: Number of rows that were looked at, those without a score included.
        low, high: The confidence sequence; `None` as long as there is none.
        side: The side of the threshold on which the mean is shown to be; `None` if it is open.
        problem: Why the metric cannot be followed; `None` if it can.
    """

    metric: str
    threshold: float
    confidence: float
    rows: int = 0
    low: float | None = None
    high: float | None = None
    side: Decision | None = None
    problem: str | None = None

    @property
    def closed(self) -> str:
        """The reason why no more rows are called; "" if they are."""
        return self.text if self.side else ""

    @property
    def text(self) -> str:
        """What is known, in words."""
        if self.problem is not None:
            return f"not decided: {self.problem}"
        if self.low is None or self.high is None:
            return f"not decided: {self.metric} scored none of the first {self.rows} rows"
        interval = f"{self.low:.4g} … {self.high:.4g} at {self.confidence:g}"
        if self.side is None:
            return f"not decided after {self.rows} rows: {self.metric} may be {self.threshold:g} ({interval})"
        return f"decided after {self.rows} rows: {self.metric} is {self.side} {self.threshold:g} ({interval})"

    @property
    def json(self) -> dict[str, Json]:
        """The entry of the manifest."""
        return {**asdict(self), "text": self.text}

    def to_bytes(self) -> bytes:
        """Encodes it as JSON."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Followed:
        """Decodes what `to_bytes` wrote."""
        return cls(**orjson.loads(data))


def confidence_sequence(
    means: Sequence[float], ends: tuple[float, float], confidence: float, shares: bool
) -> tuple[float, float]:
    """Returns the interval of the mean after some inputs, at least one.

    Args:
        means: Mean score of each input, in the order in which they were called.
        ends: Lowest and highest possible score.
        confidence: Level.
        shares: Whether each mean is of one score that is 0 or 1, but for inputs that occur several times. Their means
            lie between 0 and 1, and of such values the likelihood of 0 and 1 is no martingale but a supermartingale,
            since it is convex in the value: the interval holds for them, too.
    """
    low, high = ends
    scaled = [(mean - low) / (high - low) for mean in means]
    found = share_sequence(sum(scaled), len(scaled), confidence) if shares else mean_sequence(scaled, confidence)
    return low + found[0] * (high - low), low + found[1] * (high - low)


def mark_intervals(summaries: Iterable[Summary], followed: Followed | None) -> list[Summary]:
    """Gives the followed metric its confidence sequence, and marks the other intervals of the run.

    The others take the number of rows as fixed beforehand. It was not: it depends on the scores of the followed metric.
    """
    if followed is None:
        return list(summaries)
    return [_mark(one, followed) for one in summaries]


def _mark(summary: Summary, followed: Followed) -> Summary:
    if summary.metric == followed.metric and not summary.slice and followed.low is not None:
        sequence = followed.low, followed.high
        intervals = {level: {**one, "mean": sequence} for level, one in summary.intervals.items()}
        return replace(summary, ci_low=sequence[0], ci_high=sequence[1], ci_method=METHOD, intervals=intervals)
    return summary if summary.ci_method is None else replace(summary, ci_method=summary.ci_method + _MARK)
