"""How calls to an agent or a judge are made: limits, timeouts, retries."""

from __future__ import annotations

from pydantic import Field, PrivateAttr

from .storage import ConfigPart


class RateLimit(ConfigPart):
    """A rate limit service of Envoy's kind that is asked before each call; what it allows is up to its configuration.

    Attributes:
        service: Its gRPC address, "host:port".
        domain: Domain of the limit.
        descriptors: What the limit is for: descriptors, each of keys and values in order. The service says no if it
            would for one of them.
    """

    service: str = Field(pattern=r"^[^\s/]+:\d+$")
    domain: str = Field(min_length=1)
    descriptors: tuple[dict[str, str], ...] = Field(min_length=1)


class CallPolicy(ConfigPart):
    """How the calls of one endpoint are made.

    Attributes:
        timeout: Seconds one attempt may take.
        deadline: Seconds one row may take over all its attempts, the waits between them included; default: no bound.
        max_attempts: Attempts for each row, the first included. Attempts that are refused for their rate count a tenth.
        max_in_flight: Calls in flight at once in one worker process, reached within a second or two.
        max_in_flight_total: Calls in flight at once in the whole run at most, divided over its worker processes;
            default: no bound of its own.
        requests_per_minute: Calls the whole run may start in a minute at most, divided over its worker processes and
            evenly spread; default: no bound of its own. Where the endpoint refuses calls for their rate (HTTP 429),
            they are paced in any case.
        tokens_per_minute: Tokens the answers of the whole run may use in a minute at most, given and made, divided
            over its worker processes; kept by what answers have used so far, so answers must name their usage.
        rate_limit: A service that is asked for each attempt whether it may begin, so that all who ask it keep one
            limit together, exactly; default: nobody is asked. Without its word no attempt begins.
        rate_limit_timeout: Seconds during which the endpoint may do nothing but refuse calls for their rate, or the
            service of `rate_limit` allow none; then the rows that are left are not called.
        max_abandoned_calls: Calls of one worker process that may hang at once beyond their timeout without being
            cancellable (threads, above all); from then on no more calls are made until one of them returns.
        max_answer_bytes: Size of one answer's JSON at most; a larger one is an invalid answer.
        failure_threshold: Share of failed calls in (0, 1) among the first `failure_window` calls of a worker process,
            and then among the last so many until one such window is healthy, beyond which the run makes no more calls;
            `None` never stops a run.
        failure_window: Calls that `failure_threshold` looks at.
        retry_on: Names of further exception types that are worth another attempt, beside timeouts, dropped
            connections, HTTP 408, 409, 425, 429 and 5xx.
        backoff: Seconds of the first wait between attempts, doubled for each further one, with full jitter.
        max_backoff: Seconds a wait may last at most.
    """

    timeout: float = Field(default=60.0, gt=0)
    deadline: float | None = Field(default=None, gt=0)
    max_attempts: int = Field(default=3, ge=1, le=100)
    max_in_flight: int = Field(default=64, ge=1, le=100_000)
    max_in_flight_total: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    rate_limit: RateLimit | None = None
    rate_limit_timeout: float = Field(default=600.0, gt=0)
    max_abandoned_calls: int = Field(default=1000, ge=1)
    max_answer_bytes: int = Field(default=4 << 20, ge=1)
    failure_threshold: float | None = Field(default=None, gt=0, lt=1)
    failure_window: int = Field(default=200, ge=1)
    retry_on: tuple[str, ...] = ()
    backoff: float = Field(default=0.5, ge=0)
    max_backoff: float = Field(default=30.0, ge=0)
    _processes: int = PrivateAttr(default=1)

    @property
    def processes(self) -> int:
        """Worker processes that make the calls of the run, as far as that is known where the policy is made."""
        return self._processes

    @property
    def divided(self) -> bool:
        """Whether it has a limit of the whole run, which is divided over the worker processes."""
        limits = (self.max_in_flight_total, self.requests_per_minute, self.tokens_per_minute)
        return any(limit is not None for limit in limits)

    def for_one_of(self, processes: int) -> CallPolicy:
        """What one of several worker processes may do; a `CallPolicy` alone, also of a config that inherits from it.

        Every process may have one call in flight, so more processes than `max_in_flight_total` exceed it.
        """
        own = {name: getattr(self, name) for name in CallPolicy.model_fields}
        if self.max_in_flight_total is not None:
            own["max_in_flight"] = min(self.max_in_flight, max(1, self.max_in_flight_total // processes))
        if self.requests_per_minute is not None:
            own["requests_per_minute"] = self.requests_per_minute / processes
        if self.tokens_per_minute is not None:
            own["tokens_per_minute"] = self.tokens_per_minute / processes
        policy = CallPolicy(**own)
        policy._processes = processes
        return policy
