"""How many calls an endpoint is given at once, and how fast: careful at first, and paced once it says it is too many.

At the head of a run the window starts small and grows fast. A refusal for the rate (HTTP 429 and its like) alone says
little: an endpoint may refuse some calls at any rate, and to slow down would not help. So pacing starts only where
surely more than a small share of the calls is refused. From then on each refusal cuts the calls per second below what
was last admitted, and they follow a cubic back to it and beyond, as TCP CUBIC does (RFC 9438), scaled to the rate so
that it fits one call a minute and thousands a second; where refusals are a smaller share than what is put up with, the
pace is at least that of Scalable TCP (Kelly 2003), whose calls add what a refused one takes away. Other failures never
slow anything down. Time is the caller's: seconds of any clock.
"""

from __future__ import annotations

import math

from ..schemas.calls import CallPolicy

DOUBLING = 0.25
"""Seconds in which the window doubles at the head of a run, whatever is answered."""
_FIRST = 8
_TOLERATED = 0.05
"""Share of calls that may be refused without being a reason to slow down."""
_TOO_MANY = 0.15
"""Share that surely is one."""
_SURE = 5.0
"""Logarithm of how much likelier that share must be, 150 to 1."""
_CUT = 0.7
_RECOVERY = 3.0
_CALLS_TO_RECOVER = 6.0
_SLOWEST = 0.05
_MEMORY = 1.0
_USUAL = 60.0
_LEAST_SHARE = 0.5
_UNKNOWN = 2.0
_PAUSE = 5.0
_PATIENCE = 0.1


class Pace:
    """The window of one lane and the pace at which it may start calls.

    Attributes:
        limit: Calls that may be in flight now.
        tokens: Tokens that a call is expected to use: the mean of about the last hundred answers that named them.
    """

    def __init__(self) -> None:
        self.limit = _FIRST
        self._most = _FIRST
        self._ceiling = self._tokens_ceiling = math.inf
        self.tokens = self._answers = 0.0
        self._opened: float | None = None
        self._refused_since: float | None = None
        self._doubt = 0.0
        self._paced = False
        self._peak = self._recovery = self._scalable = 0.0
        self._cut_at = -math.inf
        self._next = -math.inf
        self._held = False
        self._lately, self._usual = Fading(_MEMORY), Fading(_USUAL)

    def open(self, policies: list[CallPolicy]) -> None:
        """Takes over the ceilings of those who use the lane: the least of each."""
        self._most = min(p.max_in_flight for p in policies)
        self._ceiling = min((p.max_calls_per_minute or math.inf) for p in policies) / 60
        self._tokens_ceiling = min((p.max_tokens_per_minute or math.inf) for p in policies) / 60
        self.limit = min(self.limit, self._most)

    def rate(self, now: float) -> float:
        """Calls a second that may be started; infinite where nothing bounds them."""
        if not self._paced:
            return self._ceiling
        since = now - self._cut_at - self._recovery
        cubic = self._peak * (1.0 + (1.0 - _CUT) * (since / self._recovery) ** 3)
        rate = max(self._least(now), cubic, self._scalable)
        if (stalled := self.stalled(now)) > self._recovery:  # looked for again now and then
            rate = min(rate, 1.0 / (_PATIENCE * stalled))
        return min(self._ceiling, rate)

    def _least(self, now: float) -> float:
        """A share of what was admitted over the last minute: refusals for other reasons do not end all calls."""
        return max(_SLOWEST, _LEAST_SHARE * self._usual.at(now) / _USUAL)

    def wait(self, now: float) -> float:
        """Seconds until a call may start; 0 starts it now, which is counted."""
        if self._next > now:
            self._held = True
            return self._next - now
        gap = max(1.0 / self.rate(now), self.tokens / self._tokens_ceiling)
        if gap:
            # A little of the pace may be made up for after a short stall, none of it after a long one.
            self._next = max(self._next, now - 0.1) + gap
        if self._held:
            self._scalable += _TOLERATED * self._step()
        self._held = False
        self._count(now, 1.0)
        if self._doubt:
            self._weigh(_ADMITTED)
        return 0.0

    def growing(self, now: float) -> bool:
        """Whether the window still opens; it does by time, so a slow endpoint that refuses nothing need not answer."""
        unknown = self._tokens_ceiling < math.inf and not self.tokens
        if self._paced or unknown or self.limit >= self._most:
            return False
        self._opened = now if self._opened is None else self._opened
        by_time = _FIRST * 2.0 ** min(40.0, (now - self._opened) / DOUBLING)
        self.limit = min(self._most, max(self.limit, int(by_time)))
        return self.limit < self._most

    def stalled(self, now: float) -> float:
        """Seconds since when the endpoint has done nothing but refuse; 0 where its last word was another."""
        return 0.0 if self._refused_since is None else now - self._refused_since

    def accepted(self) -> None:
        """The endpoint did what it was asked, or failed for another reason than the rate."""
        self._refused_since = None
        if self.limit < self._most:
            self.limit = min(self._most, self.limit + 1)

    @property
    def counts_tokens(self) -> bool:
        """Whether `used` is wanted."""
        return self._tokens_ceiling < math.inf

    def used(self, tokens: int, expected: float) -> None:
        """A call that was expected to use some tokens when it began has used others; 0 where that is not known."""
        self._next += (tokens - expected) / self._tokens_ceiling
        if tokens:
            self._answers = min(100.0, self._answers + 1.0)
            self.tokens += (tokens - self.tokens) / self._answers

    def refused(self, now: float, began: float, retry_after: float | None) -> None:
        """The endpoint refused a call that began at `began`, for the rate."""
        if self._refused_since is None:
            self._refused_since = began
        self._count(now, -1.0)
        self._weigh(_REFUSED)
        sure = self._doubt >= _SURE or self._lately.at(now) < 1.0
        if not (self._paced or sure):
            return
        if sure and retry_after is not None and retry_after >= _PAUSE:
            self._next = max(self._next, now + retry_after)
        if began <= self._cut_at or (self._paced and self.stalled(now) > self._recovery):
            return  # sent before the last cut, or while nothing is admitted: it says nothing new
        self._scalable = max(0.0, self._scalable - (1 + _TOLERATED) * self._step())
        lately, usual = self._lately.at(now) / _MEMORY, self._usual.at(now) / _USUAL
        self._peak = max(self._least(now), self.rate(now) if self._paced else max(_UNKNOWN, lately))
        if sure:
            self._scalable = min(self._scalable, _CUT * self._peak) if self._paced else _CUT * self._peak
        self._paced = True
        self._recovery = max(_RECOVERY, _CALLS_TO_RECOVER / max(self._peak, usual))
        self._cut_at = now
        self._next = max(self._next, now)

    def _step(self) -> float:
        """Calls a second that a refused call takes away: one, of a slow pace a quarter."""
        return min(1.0 / _MEMORY, self._scalable / 4)

    def _count(self, now: float, calls: float) -> None:
        self._lately.add(now, calls)
        self._usual.add(now, calls)

    def _weigh(self, evidence: float) -> None:
        """Page's test (1954) of whether a larger share of calls is refused than is put up with."""
        self._doubt = min(_SURE, max(0.0, self._doubt + evidence))


_ADMITTED = math.log((1 - _TOO_MANY) / (1 - _TOLERATED))
_REFUSED = math.log(_TOO_MANY / _TOLERATED) - _ADMITTED


class Fading:
    """A count of which a share of 1 - 1/e is forgotten in some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._value = self._at = self._step = 0.0

    def at(self, now: float) -> float:
        """The count that is left at some time, at least 0."""
        return max(0.0, self._value) * math.exp((self._at - now) / self._seconds)

    def add(self, now: float, count: float) -> None:
        """Counts something; what comes within a hundredth of the time counts as of one moment."""
        if now > self._step:
            self._value *= math.exp((self._at - now) / self._seconds)
            self._at, self._step = now, now + self._seconds / 100
        self._value += count
