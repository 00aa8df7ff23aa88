"""The rule by which a run stops early: which metric it follows, and what must be shown of it."""

from __future__ import annotations

from pydantic import Field

from .part import ConfigPart


class SequentialConfig(ConfigPart):
    """Calls the agent in waves, and no more once the mean of a metric is shown to differ from a threshold.

    Attributes:
        metric: Output name of the metric that is followed; one with a range, and no pairwise metric.
        threshold: The mean that it is held against, within its range.
        confidence: Level of the confidence sequence, in (0, 1): a mean that is the threshold is decided with a
            probability of at most 1 - confidence, however often the run looks.
        wave: Number of inputs that are called before the run looks again.
    """

    metric: str
    threshold: float
    confidence: float = Field(default=0.95, gt=0, lt=1)
    wave: int = Field(default=50, ge=1)
