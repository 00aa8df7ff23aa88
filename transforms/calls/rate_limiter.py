"""Limits how many calls an endpoint is given at once, and how fast, by what the endpoint refuses.

**Window.** The window of calls in flight starts small and opens fast; all processes of a run start with as many calls
together as one process does alone. The window of a single process doubles with each round of answers. The window of one
of several processes opens by time only, since a process hears of its own refusals alone.

**When pacing starts.** One refusal for the rate (HTTP 429 and the like) says little: an endpoint may refuse some calls
at any rate, and slowing down would not help. While the window opens, a refused call takes one place from it, and the
window stops growing as long as refusals follow each other closely. Pacing starts only if a sequential test is sure that
more than a small share of the calls is refused. While the window opens, the share is one half, since a window that
doubles uses up a quota all at once.

**Pacing.** A refusal halves the calls per second. The rate is back after a time T and grows ever faster from there: it
is peak x 2^((t/T)^2.5 - 1) after t seconds, where "peak" is the rate before the cut.

    t/T         0      0.5    1      1.5    2
    rate/peak   0.50   0.56   1.00   3.4    25

So a single refusal is made up for, several within T add up, and quota that others no longer use is found soon. T is
common to all processes, or slow ones would fall behind. It grows with the square root of their number, because each of
them probes the quota, and with the time between calls if calls are rare. If fewer calls are refused than the tolerated
share, the rate is at least that of Scalable TCP (Kelly 2003): calls add to it what a refused one takes away. An
endpoint that does nothing but refuse is tried ever more rarely and at random moments, or processes that were refused
together would return together each time. No other failure slows anything down.

**Measured** by `tests/benchmarks/bench_quota.py` (real processes, one HTTP server with a token bucket, 30 s): makespan
relative to an oracle that never sends too much or too little, and refused calls for each accepted one.

    case                      paced            equal share, makespan
     8 processes, even        1.025 / 0.062    1.09
     8, quota halved midway   1.009 / 0.078    1.18 to 1.30
     8, one has half the work 1.043 / 0.036    4.33
    16 processes, even        1.071 / 0.072    1.08
    16, quota halved midway   1.059 / 0.096    1.40
    16, one has half the work 1.020 / 0.048    8.62

At full rate the makespan is 2.1 to 3.4 and 2.9 to 3.4 calls are refused for each accepted one. The constants below are
chosen together so that both figures stay within 1.10 and 0.10; no constant was measured by itself. A change to one has
to pass `bench_quota.py` and `bench_pace.py`, which draws many more servers under a virtual clock.

Times are the caller's: seconds of any clock.
"""

from __future__ import annotations

import math
import random

from ...schemas.config.calls import CallPolicy

DOUBLING = 0.25
"""Seconds in which the window doubles at the head of a run, whatever is answered: 8 calls become 64 in 0.75 s."""
_FIRST = 8
"""Calls in flight at first, of all processes of the run together, but at least one of each process."""

# The sequential test of when to pace. One refusal adds log(share / tolerated) / log(odds) to the doubt, one admitted
# call takes away -log((1 - share) / (1 - tolerated)) / log(odds); at 1 the test is sure.
_TOLERATED = 0.05
"""Share of calls that may be refused without being a reason to slow down: half of the bound of 0.10 above."""
_TOO_MANY = 0.15
"""Share of refused calls that the test of an open window looks for."""
_EXHAUSTED = 0.5
"""Share of refused calls that the test of an opening window looks for: it meets an exhausted quota all at once."""
_SURE, _SURE_OPENING = 10_000.0, 900.0
"""How many times likelier the share above must be than the tolerated one. An open window has many calls to tell by, and
a wrong start of pacing costs most there: 9 refusals in a row are sure, and 10 admitted calls offset one refusal. An
opening window has few calls: 3 refusals in a row are sure, and 4 admitted calls offset one."""
_HOLDING = 0.5
"""Doubt above which the window does not grow. While it opens that is the second refusal in a row (0.34 each), so that
a single one does not hold it."""
_HOLD = 1.0
"""Seconds without a refusal after which the window grows in any case: an endpoint may take minutes to answer, and
until then nothing reduces the doubt."""

# The growth of a paced rate.
_SHAPE = 2.5
"""Exponent of the growth: little right after a refusal, and ever more later; the table above shows it."""
_RECOVERY, _SHORTEST, _ENOUGH = 0.85, 2.0, 4.0
"""Seconds: T for the square root of the number of processes, and its bounds, for up to 5 and from 23 processes on."""
_CALLS_TO_RECOVER, _LONGEST = 8.0, 10.0
"""Calls that T takes at least, unless they take longer than that many seconds: fewer calls say nothing of a rate. It
matters below 4 calls a second; more takes 2 s anyway."""
_DELAYS = 8.0
"""T is at least so many times as long as a refusal takes to arrive: until then the effect of the rate is unknown."""
_CALLS_TO_TELL = 2.0
"""Calls at the peak rate after a cut in which there is no other cut: refusals until then are of the same moment."""
_MOST = 3.0
"""Multiple of T after which the rate grows no more, at 25,000 times the peak; the power would overflow later."""
_UNUSED = 4.0
"""Bound of the rate, as a multiple of the rate used lately: what is not used is not known to be possible."""
_SLOWEST = 0.05
"""Calls a second that are always allowed: an endpoint that recovers is found within 20 s, unless it has stalled."""
_LEAST_SHARE = 0.5
"""Share of what was admitted over the last minute below which refusals do not push the rate."""
_UNKNOWN = 2.0
"""Calls a second: the lowest peak with which pacing starts, since little is known of the rate then."""

_MEMORY = 1.0
"""Seconds over which "lately" decays; its inverse is the step of Scalable TCP in calls a second."""
_USUAL = 60.0
"""Seconds over which the usual rate decays."""
_PAUSE = 5.0
"""Seconds of a Retry-After from which on it also holds back the other calls; after less, the rate is reduced alone."""
_PATIENCE = 0.1
"""Share of the time since an endpoint stalled that lies between two tries: after a minute there is one in 6 s, with a
random factor from 0 to 2."""


class AdaptiveRateLimiter:
    """The window of one queue, and the rate at which the queue may start calls.

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
        """Takes over the limits of those who use the queue: the smallest of each."""
        if not self._most:
            self._processes = max(p.processes for p in policies)
            self.limit = self._first = max(1, _FIRST // self._processes)
        self._most = min(p.max_in_flight for p in policies)
        self._ceiling = min((p.requests_per_minute or math.inf) for p in policies) / 60
        self._tokens_ceiling = min((p.tokens_per_minute or math.inf) for p in policies) / 60
        self.limit = min(self.limit, self._most)

    def bound(self, most: int) -> None:
        """Bounds the window by what this process can do, whatever the endpoint admits; at least one call."""
        self._most = max(1, min(self._most, most))
        self.limit = min(self.limit, self._most)

    def rate(self, now: float) -> float:
        """Returns the calls a second that may be started; infinite if nothing bounds them."""
        if not self._paced:
            return self._ceiling
        since = min(_MOST, (now - self._cut_at) / self._recovery)
        grown = self._peak * 2.0 ** (since**_SHAPE - 1.0)
        used = max(1.0, self._peak, self._lately.mean(now))
        rate = max(self._least(now), min(grown, _UNUSED * used), self._scalable)
        if (stalled := self.stalled(now)) > self._recovery:  # tried again now and then
            rate = min(rate, 1.0 / (_PATIENCE * stalled))
        return min(self._ceiling, rate)

    def _least(self, now: float) -> float:
        """Returns the lowest rate: refusals that do not depend on the rate must not end all calls."""
        return max(_SLOWEST, _LEAST_SHARE * self._usual.at(now) / _USUAL)

    def wait(self, now: float) -> float:
        """Returns the seconds until a call may start; at 0 the call is counted as started."""
        if self._next > now:
            self._held = True
            return self._next - now
        gap = max(1.0 / self.rate(now), self.tokens / self._tokens_ceiling)
        if self._paced and self.stalled(now) > self._recovery:
            gap *= random.uniform(0.0, 2.0)
        if gap:
            # A loop that was late makes up for 0.1 s of calls at most, so that no long stall ends in a burst.
            self._next = max(self._next, now - 0.1) + gap
        if self._held:
            self._scalable += _TOLERATED * self._step()
        self._held = False
        self._count(now, 1.0)
        if self._doubt:
            self._weigh(_evidence(self._opening)[0])
        return 0.0

    def growing(self, now: float) -> bool:
        """Opens the window by time and returns whether it opens further; a slow endpoint need not answer for that."""
        unknown = self._tokens_ceiling < math.inf and not self.tokens
        if self._paced or unknown or self.limit >= self._most:
            return False
        self._opened = now if self._opened is None else self._opened
        if self._doubt > _HOLDING and now - self._refused_at < _HOLD:
            self._first, self._opened = self.limit, now
        by_time = self._first * 2.0 ** min(40.0, (now - self._opened) / DOUBLING)  # 40: beyond any window, no overflow
        self._grow(int(by_time))
        return self.limit < self._most

    def _grow(self, limit: int) -> None:
        self.limit = min(self._most, max(self.limit, limit))
        self._opening = self._opening and self.limit < self._most

    def stalled(self, now: float) -> float:
        """Returns the seconds for which the endpoint has only refused; 0 if its last answer was another."""
        return 0.0 if self._refused_since is None else now - self._refused_since

    def accepted(self) -> None:
        """Notes that the endpoint answered, or failed for another reason than the rate."""
        self._refused_since = None
        if self.limit < self._most and (self._paced or (self._processes == 1 and self._doubt <= _HOLDING)):
            self._grow(self.limit + 1)

    @property
    def counts_tokens(self) -> bool:
        """Whether `used` has to be called."""
        return self._tokens_ceiling < math.inf

    def used(self, tokens: int, expected: float) -> None:
        """Corrects the rate by the tokens a call used.

        Args:
            tokens: Tokens the call used; 0 if that is not known.
            expected: Tokens it was expected to use when it began.
        """
        self._next += (tokens - expected) / self._tokens_ceiling
        if tokens:
            self._answers = min(100.0, self._answers + 1.0)
            self.tokens += (tokens - self.tokens) / self._answers

    def refused(self, now: float, began: float, retry_after: float | None) -> None:
        """Notes that the endpoint refused a call for its rate.

        Args:
            now: When the refusal arrived.
            began: When the call began.
            retry_after: Seconds the endpoint asked to wait, if it did.
        """
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
        """Opens the window fully: from now on the rate is the bound."""
        self._paced = True
        self._opening, self.limit = False, self._most
        self._cut(now, now - began, max(_UNKNOWN, self._lately.mean(now)))  # admitted lately, or not refused yet
        self._scalable = self._peak / 2

    def _slow_down(self, now: float, began: float, sure: bool) -> None:
        if began <= self._cut_at + _CALLS_TO_TELL / self._peak or self.stalled(now) > self._recovery:
            return  # sent before the last cut or right after it, or while nothing is admitted: no news
        self._scalable = max(0.0, self._scalable - (1 + _TOLERATED) * self._step())
        rate = max(self._least(now), self.rate(now))
        if sure:
            self._scalable = min(self._scalable, rate / 2)
        self._cut(now, now - began, rate)

    def _cut(self, now: float, delay: float, peak: float) -> None:
        """Cuts the rate to half of `peak`; the refusal took `delay` seconds to arrive."""
        self._peak, self._cut_at = peak, now
        rare = min(_LONGEST, _CALLS_TO_RECOVER / max(peak, self._usual.mean(now)))
        shared = min(_ENOUGH, _RECOVERY * math.sqrt(self._processes))
        self._recovery = max(_SHORTEST, shared, _DELAYS * delay, rare)
        self._next = max(self._next, now)

    def _step(self) -> float:
        """Returns the calls a second that a refused call takes away: one, or a quarter of a slow rate."""
        return min(1.0 / _MEMORY, self._scalable / 4)

    def _count(self, now: float, calls: float) -> None:
        self._lately.add(now, calls)
        self._usual.add(now, calls)

    def _doubt_more(self, now: float, began: float) -> None:
        """Counts a refusal in the test.

        A call is counted as admitted when it starts, but only while there is doubt; the refusal takes that back, and
        nothing else. Without this rule, 3 % refused at any rate looked like an exhausted quota to 16 processes: their
        makespan was 14.6 times the ideal instead of 1.4 times.
        """
        admitted, refused = _evidence(self._opening)
        self._doubted = self._doubted if self._doubt else now
        self._weigh(refused - admitted if began > self._doubted else refused)

    def _weigh(self, evidence: float) -> None:
        """Adds evidence to Page's test (1954) of whether more than the tolerated share of calls is refused."""
        self._doubt = min(1.0, max(0.0, self._doubt + evidence))


def _weights(share: float, odds: float) -> tuple[float, float]:
    return math.log((1 - share) / (1 - _TOLERATED)) / math.log(odds), math.log(share / _TOLERATED) / math.log(odds)


_OPEN, _OPENING = _weights(_TOO_MANY, _SURE), _weights(_EXHAUSTED, _SURE_OPENING)


def _evidence(opening: bool) -> tuple[float, float]:
    """Returns what an admitted and a refused call add to the doubt."""
    return _OPENING if opening else _OPEN


class Fading:
    """A count that decays exponentially.

    Args:
        seconds: Time constant: after it 1/e of a count is left.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._value = self._at = self._step = 0.0
        self._since: float | None = None

    def at(self, now: float) -> float:
        """Returns the count that is left at a time, at least 0."""
        return max(0.0, self._value) * math.exp((self._at - now) / self._seconds)

    def mean(self, now: float) -> float:
        """Returns the count per second of what has not decayed."""
        if self._since is None:
            return 0.0
        remembered = self._seconds * (1.0 - math.exp((self._since - now) / self._seconds))
        return self.at(now) / max(1.0, remembered)

    def add(self, now: float, count: float) -> None:
        """Adds to the count. Additions within a hundredth of the time constant share one decay: it saves an `exp`."""
        self._since = now if self._since is None else self._since
        if now > self._step:
            self._value *= math.exp((self._at - now) / self._seconds)
            self._at, self._step = now, now + self._seconds / 100
        self._value += count
