"""A token bucket: what servers keep a rate by."""

from __future__ import annotations

_ROUNDING = 1e-9  # of times: without it a wait can be too short for a virtual clock to move


class Bucket:
    """Tokens that come at a rate, as many as fit; a question that finds too few takes none.

    Args:
        rate: Tokens a second; may be changed.
        size: Tokens at most, and at first.
    """

    def __init__(self, rate: float, size: float) -> None:
        self.rate, self.size = rate, size
        self._tokens = size
        self._at: float | None = None

    def take(self, now: float, tokens: int = 1) -> float:
        """Seconds until there would have been enough; 0 takes them."""
        if self._at is not None:
            self._tokens = min(self.size, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens < tokens - _ROUNDING:
            return (tokens - self._tokens) / self.rate
        self._tokens -= tokens
        return 0.0
