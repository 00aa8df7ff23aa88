"""How many calls an endpoint is given at once, and how fast: careful at first, and paced once it says it is too many.

At the head of a run the window starts small and grows fast while nothing is refused. The first refusal for the rate
(HTTP 429 and its like) starts the pacing: calls per second are cut below what was last accepted and follow a cubic
back to it and beyond, as TCP CUBIC does (Ha, Rhee, Xu 2008), scaled to the rate so that it fits one call a minute and
thousands a second. Other failures never slow anything down. Time is the caller's: seconds of any clock.
"""

from __future__ import annotations

import math

from ..schemas.calls import CallPolicy

DOUBLING = 0.25
"""Seconds in which the window doubles at the head of a run, whatever is answered."""
_FIRST = 8
_GROWTH = 3
_CUT = 0.7
_RECOVERY = 3.0
_CALLS_TO_RECOVER = 6.0
_SLOWEST = 0.05
_MEMORY = 1.0
_UNKNOWN = 2.0
_PAUSE = 5.0
_LEAST_SHARE = 0.25
_FORGET = 120.0


class Pace:
    """The window of one lane and the pace at which it may start calls.

    Attributes:
        limit: Calls that may be in flight now.
    """

    def __init__(self) -> None:
        self.limit = _FIRST
        self._most = _FIRST
        self._ceiling = math.inf
        self._opened: float | None = None
        self._refused_since: float | None = None
        self._paced = False
        self._peak = self._recovery = 0.0
        self._cut_at = -math.inf
        self._next = -math.inf
        self._accepted = self._best = self._best_at = 0.0
        self._counted_at = 0.0

    def open(self, policies: list[CallPolicy]) -> None:
        """Takes over the ceilings of those who use the lane: the least of each."""
        self._most = min(p.max_in_flight for p in policies)
        self._ceiling = min((p.max_calls_per_minute or math.inf) for p in policies) / 60
        self.limit = min(self.limit, self._most)

    def rate(self, now: float) -> float:
        """Calls a second that may be started; infinite where nothing was refused."""
        if not self._paced:
            return self._ceiling
        since = now - self._cut_at - self._recovery
        factor = 1.0 + (1.0 - _CUT) * (since / self._recovery) ** 3
        return min(self._ceiling, max(self._least(now), self._peak * factor))

    def _least(self, now: float) -> float:
        """A share of what was once accepted, slowly forgotten: refusals for other reasons do not end all calls."""
        return max(_SLOWEST, _LEAST_SHARE * self._best * math.exp((self._best_at - now) / _FORGET))

    def wait(self, now: float) -> float:
        """Seconds until a call may start; 0 starts it now, which is counted."""
        if self._next > now:
            return self._next - now
        rate = self.rate(now)
        if rate < math.inf:
            # A little of the pace may be made up for after a short stall, none of it after a long one.
            self._next = max(self._next, now - 0.1) + 1.0 / rate
        return 0.0

    def growing(self, now: float) -> bool:
        """Whether the window still opens; it does by time, so a slow endpoint that refuses nothing need not answer."""
        if self._paced or self.limit >= self._most:
            return False
        self._opened = now if self._opened is None else self._opened
        by_time = _FIRST * 2.0 ** min(40.0, (now - self._opened) / DOUBLING)
        self.limit = min(self._most, max(self.limit, int(by_time)))
        return self.limit < self._most

    def stalled(self, now: float) -> float:
        """Seconds since when the endpoint has done nothing but refuse; 0 where its last word was another."""
        return 0.0 if self._refused_since is None else now - self._refused_since

    def accepted(self, now: float) -> None:
        """The endpoint did what it was asked, or failed for another reason than the rate."""
        self._refused_since = None
        self._count(now, 1.0)
        rate = self._accepted / _MEMORY
        if _LEAST_SHARE * rate > self._least(now):
            self._best, self._best_at = rate, now
        if self.limit < self._most:
            self.limit = min(self._most, self.limit + _GROWTH)

    def refused(self, now: float, began: float, retry_after: float | None) -> None:
        """The endpoint refused a call that began at `began`, for the rate."""
        if self._refused_since is None:
            self._refused_since = began
        if retry_after is not None and retry_after >= _PAUSE:
            self._next = max(self._next, now + retry_after)
        if began <= self._cut_at:
            return  # sent before the last cut: it says nothing new
        self._count(now, 0.0)
        self._peak = max(self._least(now), self.rate(now) if self._paced else max(_UNKNOWN, self._accepted / _MEMORY))
        self._paced = True
        self._recovery = max(_RECOVERY, _CALLS_TO_RECOVER / self._peak)
        self._cut_at = now
        self._next = max(self._next, now)

    def _count(self, now: float, calls: float) -> None:
        """Accepted calls of about the last second, older ones fading."""
        self._accepted = self._accepted * math.exp((self._counted_at - now) / _MEMORY) + calls
        self._counted_at = now
