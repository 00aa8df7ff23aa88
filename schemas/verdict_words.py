"""Words on verdicts that both the verdict itself and what shows it use."""

from __future__ import annotations

TOO_SMALL = "n too small to show this"


def say_interval(low: float | None, high: float | None, confidence: float) -> str:
    """Formats an interval and its level; `None` is an end that is not known."""
    ends = ("?" if end is None else f"{end:.4g}" for end in (low, high))
    return f"{' … '.join(ends)} at {100 * confidence:.4g} %"
