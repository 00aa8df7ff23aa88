"""Whether a call is tried again, and when."""

from __future__ import annotations

import random

from ...schemas.config.calls import CallPolicy
from .errors import RETRIED, ClassifiedError

MAX_RETRY_AFTER = 300.0
"""Seconds; a callee that asks to wait longer is not asked again."""


class RetryBudget:
    """Retries an endpoint is allowed: a reserve, and one more for each answer, so an outage multiplies no traffic.

    Any answer counts, a permanent error and one that cannot be used too: it shows that the endpoint is alive.
    """

    def __init__(self) -> None:
        self.left = 0.0
        self._reserve = 0.0

    def grow(self, policy: CallPolicy) -> None:
        """Makes room for a further caller of the endpoint: the retries of one full window."""
        self._reserve = max(self._reserve, 32.0, float(policy.max_in_flight * (policy.max_attempts - 1)))
        self.left = self._reserve

    def answered(self) -> None:
        """The endpoint gave an answer."""
        if self.left < self._reserve:
            self.left = min(self.left + 1.0, self._reserve)

    def wait(
        self, policy: CallPolicy, attempts: int, refusals: int, error: ClassifiedError, left: float
    ) -> float | None:
        """Seconds until the next attempt, drawn from [0, backoff x 2^(attempts-1)] and beyond what the callee asked.

        Args:
            policy: How the call may be made.
            attempts: Attempts made, at least 1.
            refusals: How many of them were refused for the rate. They do no work and say that the endpoint is alive:
                ten times as many are allowed, and none is taken from the budget, since the queue is paced instead.
            error: What came of the last one.
            left: Seconds the row has left.

        Returns:
            `None` where there is no further attempt.
        """
        limited = error.kind == "rate_limited"
        made, most = (refusals, 10 * policy.max_attempts) if limited else (attempts - refusals, policy.max_attempts)
        if error.kind not in RETRIED or made >= most or policy.max_attempts == 1 or (self.left < 1.0 and not limited):
            return None
        wait = random.uniform(0.0, min(policy.max_backoff, policy.backoff * 2.0 ** min(100, attempts - 1)))
        if error.retry_after is not None:
            if error.retry_after > MAX_RETRY_AFTER:
                return None
            wait += error.retry_after
        if wait >= left:
            return None
        if not limited:
            self.left -= 1.0
        return wait
