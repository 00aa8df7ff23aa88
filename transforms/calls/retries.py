"""Decides whether a call is tried again, and when."""

from __future__ import annotations

import random

from ...schemas.config.calls import CallPolicy
from .errors import RETRIED, ClassifiedError

MAX_RETRY_AFTER = 300.0
"""Seconds. A callee that asks to wait longer is not called again: a Retry-After of hours would hold the run as long."""

_RESERVE = 32.0
"""Retries that an endpoint may always have, so that one with a small window survives a burst of failures."""
_REFUSALS = 10
"""Refusals for the rate that are allowed for each other attempt: a refused call has done no work, the endpoint is
alive, and the queue is paced instead."""
_EXPONENT = 100
"""Highest power of 2 of the backoff: far above any `max_backoff`, and below the overflow of a float at 2^1024."""


class RetryBudget:
    """The retries an endpoint is allowed: a reserve, and one more for each answer, so that an outage adds no traffic.

    Any answer counts, also a permanent error and an answer that cannot be used: it shows that the endpoint is alive.
    """

    def __init__(self) -> None:
        self.left = 0.0
        self._reserve = 0.0

    def grow(self, policy: CallPolicy) -> None:
        """Raises the reserve for a further caller: one full window of calls may use all its retries."""
        self._reserve = max(self._reserve, _RESERVE, float(policy.max_in_flight * (policy.max_attempts - 1)))
        self.left = self._reserve

    def answered(self) -> None:
        """Adds a retry, since the endpoint gave an answer."""
        if self.left < self._reserve:
            self.left = min(self.left + 1.0, self._reserve)

    def wait(
        self, policy: CallPolicy, attempts: int, refusals: int, error: ClassifiedError, left: float
    ) -> float | None:
        """Draws the seconds until the next attempt from [0, backoff x 2^(attempts-1)], added to what the callee asked.

        The draw is from the whole interval ("full jitter"), so that calls that failed together do not return together.

        Args:
            policy: How the call may be made.
            attempts: Attempts made, at least 1.
            refusals: How many of them were refused for the rate. Ten times as many are allowed, and none is taken from
                the budget.
            error: The error of the last attempt.
            left: Seconds until the deadline of the row.

        Returns:
            The seconds, or `None` if there is no further attempt.
        """
        limited = error.kind == "rate_limited"
        made, most = attempts - refusals, policy.max_attempts
        if limited:
            made, most = refusals, _REFUSALS * policy.max_attempts
        if error.kind not in RETRIED or made >= most or policy.max_attempts == 1 or (self.left < 1.0 and not limited):
            return None
        wait = random.uniform(0.0, min(policy.max_backoff, policy.backoff * 2.0 ** min(_EXPONENT, attempts - 1)))
        if error.retry_after is not None:
            if error.retry_after > MAX_RETRY_AFTER:
                return None
            wait += error.retry_after
        if wait >= left:
            return None
        if not limited:
            self.left -= 1.0
        return wait
