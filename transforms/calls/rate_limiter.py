"""How many calls an endpoint is given at once, and how fast: careful at first, and paced once it says it is too many.

At the head of a run the window starts small and grows fast, and all processes of a run start as carefully together as
one does alone. The window of one process alone doubles with each round of answers; that of one of several opens by time
only, since each of them hears of its own refusals alone. A refusal for the rate (HTTP 429 and its like) alone says
little: an endpoint may refuse some calls at any rate, and to slow down would not help. A window that still opens gives
up the place of a refused call and stops growing while refusals come one upon the other; pacing starts only where surely
more than a small share of the calls is refused, or, since a window that doubles meets an exhausted quota all at once,
half of them while it opens.

From then on a refusal halves the calls per second; they are back where they were after a time T and grow ever faster
from there, as peak x 2^((t/T)^2.5 - 1) after t seconds. So one refusal is made up for, several within T add up, and
quota that others no longer use is soon found. T is common to all processes, or slow ones would fall behind; it grows
with the square root of their number, because each of them probes the quota, and where calls are rare it is what some of
them take. Where refusals are a smaller share than what is put up with, the rate is at least that of Scalable TCP (Kelly
2003), whose calls add what a refused one takes away. An endpoint that does nothing but refuse is tried ever more rarely
and at random moments, or processes that were refused together would be together again each time. Other failures never
slow anything down. Time is the caller's: seconds of any clock.
"""

from __future__ import annotations

import math
import random

from ...schemas.config.calls import CallPolicy

DOUBLING = 0.25
"""Seconds in which the window doubles at the head of a run, whatever is answered."""
_FIRST = 8
"""Calls in flight at first, of all processes of the run together; at least one of each."""
_TOLERATED = 0.05
"""Share of calls that may be refused without being a reason to slow down."""
_TOO_MANY = 0.15
"""Share that surely is one."""
_EXHAUSTED = 0.5
"""Share that surely is one while the window opens."""
_SURE, _SURE_OPENING = 10_000.0, 900.0
"""How much likelier that share must be. Of an open window there are many calls to tell by, and to be wrong costs most;
one that opens at an exhausted quota has few."""
_HOLDING = 0.5
"""Doubt from which on the window does not grow, 1 being sure; one refusal is not yet a reason."""
_HOLD = 1.0
"""Seconds without a refusal after which it grows in any case: an endpoint may be slow to answer."""
_SHAPE = 2.5
"""Exponent of the growth: little right after a refusal, and ever more."""
_RECOVERY, _SHORTEST, _ENOUGH = 0.85, 2.0, 4.0
"""Seconds T for the root of the number of processes, and their bounds."""
_CALLS_TO_RECOVER, _LONGEST = 8.0, 10.0
"""Calls that T takes at least, unless they take longer than so many seconds."""
_DELAYS = 8.0
"""Times as long as a refusal takes to come, T takes at least: until then it is not known what the rate does."""
_CALLS_TO_TELL = 2.0
"""Calls after a cut before another one: until then the refusals are of the same moment."""
_MOST = 3.0
"""Times T after which the rate grows no more; it would overflow."""
_UNUSED = 4.0
"""Times the rate that was used lately; what is not used is not known to be possible."""
_SLOWEST = 0.05
_MEMORY = 1.0
_USUAL = 60.0
_LEAST_SHARE = 0.5
_UNKNOWN = 2.0
_PAUSE = 5.0
_PATIENCE = 0.1


class AdaptiveRateLimiter:
    """The window of one queue and the rate at which it may start calls.

    Attributes:
        limit: Calls that may be in flight now.
        tokens: Tokens that a call is expected to use: the mean of about the last hundred answers that named them.
    """

    def __init__(self) -> None:
        self.limit = self._first = _FIRST
        self._most = 0
        self._opening = True
        self._ceiling = self._tokens_ceiling = math.inf
        self.tokens = self._answers = 0.0
        self._opened: float | None = None
        self._refused_since: float | None = None
        self._refused_at = -math.inf
        self._doubt = 0.0
        self._doubted = -math.inf
        self._paced = False
        self._processes = 1
        self._peak = self._recovery = self._scalable = 0.0
        self._cut_at = -math.inf
        self._next = -math.inf
        self._held = False
        self._lately, self._usual = Fading(_MEMORY), Fading(_USUAL)

    def open(self, policies: list[CallPolicy]) -> None:
        """Takes over the ceilings of those who use the queue: the least of each."""
        if not self._most:
            self._processes = max(p.processes for p in policies)
            self.limit = self._first = max(1, _FIRST // self._processes)
        self._most = min(p.max_in_flight for p in policies)
        self._ceiling = min((p.requests_per_minute or math.inf) for p in policies) / 60
        self._tokens_ceiling = min((p.tokens_per_minute or math.inf) for p in policies) / 60
        self.limit = min(self.limit, self._most)

    def bound(self, most: int) -> None:
        """More calls than so many cannot be in flight here, whatever the endpoint says; at least one can."""
        self._most = max(1, min(self._most, most))
        self.limit = min(self.limit, self._most)

    def rate(self, now: float) -> float:
        """Calls a second that may be started; infinite where nothing bounds them."""
        if not self._paced:
            return self._ceiling
        since = min(_MOST, (now - self._cut_at) / self._recovery)
        grown = self._peak * 2.0 ** (since**_SHAPE - 1.0)
        used = max(1.0, self._peak, self._lately.mean(now))
        rate = max(self._least(now), min(grown, _UNUSED * used), self._scalable)
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
        if self._paced and self.stalled(now) > self._recovery:
            gap *= random.uniform(0.0, 2.0)
        if gap:
            # A little of the rate may be made up for after a short stall, none of it after a long one.
            self._next = max(self._next, now - 0.1) + gap
        if self._held:
            self._scalable += _TOLERATED * self._step()
        self._held = False
        self._count(now, 1.0)
        if self._doubt:
            self._weigh(_evidence(self._opening)[0])
        return 0.0

    def growing(self, now: float) -> bool:
        """Whether the window still opens; it does by time, so a slow endpoint that refuses nothing need not answer."""
        unknown = self._tokens_ceiling < math.inf and not self.tokens
        if self._paced or unknown or self.limit >= self._most:
            return False
        self._opened = now if self._opened is None else self._opened
        if self._doubt > _HOLDING and now - self._refused_at < _HOLD:
            self._first, self._opened = self.limit, now
        by_time = self._first * 2.0 ** min(40.0, (now - self._opened) / DOUBLING)
        self._grow(int(by_time))
        return self.limit < self._most

    def _grow(self, limit: int) -> None:
        self.limit = min(self._most, max(self.limit, limit))
        self._opening = self._opening and self.limit < self._most

    def stalled(self, now: float) -> float:
        """Seconds since when the endpoint has done nothing but refuse; 0 where its last word was another."""
        return 0.0 if self._refused_since is None else now - self._refused_since

    def accepted(self) -> None:
        """The endpoint did what it was asked, or failed for another reason than the rate."""
        self._refused_since = None
        if self.limit < self._most and (self._paced or (self._processes == 1 and self._doubt <= _HOLDING)):
            self._grow(self.limit + 1)

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
        self._refused_at = now
        self._count(now, -1.0)
        self._doubt_more(now, began)
        sure = self._doubt >= 1.0 or (self._paced and self._lately.at(now) < 1.0)
        if sure and retry_after is not None and retry_after >= _PAUSE:
            self._next = max(self._next, now + retry_after)
        if self._paced:
            self._slow_down(now, began, sure)
        elif sure:
            self._start_pacing(now, began)
        elif self._opening:
            self.limit = self._first = max(1, self.limit - 1)
            self._opened = now

    def _start_pacing(self, now: float, began: float) -> None:
        """The window is no bound any more, the rate is."""
        self._paced = True
        self._opening, self.limit = False, self._most
        self._cut(now, now - began, max(_UNKNOWN, self._lately.mean(now)))  # admitted lately, or not refused yet
        self._scalable = self._peak / 2

    def _slow_down(self, now: float, began: float, sure: bool) -> None:
        if began <= self._cut_at + _CALLS_TO_TELL / self._peak or self.stalled(now) > self._recovery:
            return  # sent before the last cut or right after it, or while nothing is admitted: it says nothing new
        self._scalable = max(0.0, self._scalable - (1 + _TOLERATED) * self._step())
        rate = max(self._least(now), self.rate(now))
        if sure:
            self._scalable = min(self._scalable, rate / 2)
        self._cut(now, now - began, rate)

    def _cut(self, now: float, delay: float, peak: float) -> None:
        """Has the rate fall to half of a peak and return to it; a refusal took `delay` seconds to come."""
        self._peak, self._cut_at = peak, now
        rare = min(_LONGEST, _CALLS_TO_RECOVER / max(peak, self._usual.mean(now)))
        shared = min(_ENOUGH, _RECOVERY * math.sqrt(self._processes))
        self._recovery = max(_SHORTEST, shared, _DELAYS * delay, rare)
        self._next = max(self._next, now)

    def _step(self) -> float:
        """Calls a second that a refused call takes away: one, of a slow rate a quarter."""
        return min(1.0 / _MEMORY, self._scalable / 4)

    def _count(self, now: float, calls: float) -> None:
        self._lately.add(now, calls)
        self._usual.add(now, calls)

    def _doubt_more(self, now: float, began: float) -> None:
        """A call was refused: its start said that it was admitted, if it was weighed, as it is not without doubt."""
        admitted, refused = _evidence(self._opening)
        self._doubted = self._doubted if self._doubt else now
        self._weigh(refused - admitted if began > self._doubted else refused)

    def _weigh(self, evidence: float) -> None:
        """Page's test (1954) of whether a larger share of calls is refused than is put up with."""
        self._doubt = min(1.0, max(0.0, self._doubt + evidence))


def _weights(share: float, odds: float) -> tuple[float, float]:
    return math.log((1 - share) / (1 - _TOLERATED)) / math.log(odds), math.log(share / _TOLERATED) / math.log(odds)


_OPEN, _OPENING = _weights(_TOO_MANY, _SURE), _weights(_EXHAUSTED, _SURE_OPENING)


def _evidence(opening: bool) -> tuple[float, float]:
    """What an admitted and a refused call add to the doubt."""
    return _OPENING if opening else _OPEN


class Fading:
    """A count of which a share of 1 - 1/e is forgotten in some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._value = self._at = self._step = 0.0
        self._since: float | None = None

    def at(self, now: float) -> float:
        """The count that is left at some time, at least 0."""
        return max(0.0, self._value) * math.exp((self._at - now) / self._seconds)

    def mean(self, now: float) -> float:
        """Counts a second, of what is not forgotten."""
        if self._since is None:
            return 0.0
        remembered = self._seconds * (1.0 - math.exp((self._since - now) / self._seconds))
        return self.at(now) / max(1.0, remembered)

    def add(self, now: float, count: float) -> None:
        """Counts something; what comes within a hundredth of the time counts as of one moment."""
        self._since = now if self._since is None else self._since
        if now > self._step:
            self._value *= math.exp((self._at - now) / self._seconds)
            self._at, self._step = now, now + self._seconds / 100
        self._value += count
