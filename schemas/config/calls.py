"""Configuration of the calls to an agent or a judge: limits, timeouts, retries."""

from __future__ import annotations

from pydantic import Field, PrivateAttr

from .part import ConfigPart


class RateLimit(ConfigPart):
    """An Envoy-compatible rate limit service, queried before each call; its own configuration sets the limits.

    Attributes:
        service: gRPC address of the service, "host:port".
        domain: Domain of the limit.
        descriptors: Descriptors of the limit, each an ordered mapping of keys to values. A call waits if the service
            refuses any of them.
    """

    service: str = Field(pattern=r"^[^\s/]+:\d+$")
    domain: str = Field(min_length=1)
    descriptors: tuple[dict[str, str], ...] = Field(min_length=1)


class CallPolicy(ConfigPart):
    """Limits, timeouts and retries of the calls to one endpoint.

    Attributes:
        timeout: Maximum seconds of one attempt.
        deadline: Maximum seconds of one row over all attempts and the waits between them; default: unlimited.
        max_attempts: Attempts for each row, the first included. An attempt refused for its rate counts as a tenth.
        max_in_flight: Concurrent calls of one worker process, reached within a second or two.
        max_in_flight_total: Maximum concurrent calls of the whole run, divided among its worker processes; default:
            unlimited.
        requests_per_minute: Maximum calls that the whole run starts in a minute, divided among its worker processes
            and evenly spaced; default: unlimited. If the endpoint refuses calls for their rate (HTTP 429), calls are
            paced in any case.
        tokens_per_minute: Maximum input and output tokens of the whole run in a minute, divided among its worker
            processes. Enforced by the usage that answers report, so answers must report it.
        rate_limit: A service that must allow each attempt before it starts, so that all its clients share one exact
            limit; default: none. No attempt starts while the service does not answer.
        rate_limit_timeout: Maximum seconds during which the endpoint refuses every call for its rate, or the service
            of `rate_limit` allows none; afterwards the remaining rows are not called.
        max_abandoned_calls: Maximum calls of one worker process that hang beyond their timeout and cannot be cancelled
            (mostly threads); at this number no call starts until one of them returns.
        max_answer_bytes: Maximum size of one answer as JSON, in bytes; a larger one is an invalid answer.
        failure_threshold: Share of failed calls in (0, 1) above which the run makes no more calls. It applies to the
            first `failure_window` calls of a worker process, then to the latest `failure_window` calls until one such
            window is below it; `None` never stops a run.
        failure_window: Number of calls over which `failure_threshold` is measured.
        retry_on: Names of further exception types to retry, besides timeouts, dropped connections, HTTP 408, 409, 425,
            429 and 5xx.
        backoff: Seconds of the first wait between attempts, doubled for each further one, with full jitter.
        max_backoff: Maximum seconds of one wait.
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
        """Number of worker processes that make the run's calls, as far as known when the policy was made."""
        return self._processes

    @property
    def divided(self) -> bool:
        """True if the policy has a limit of the whole run, which the worker processes divide among them."""
        limits = (self.max_in_flight_total, self.requests_per_minute, self.tokens_per_minute)
        return any(limit is not None for limit in limits)

    def for_one_of(self, processes: int) -> CallPolicy:
        """Returns the policy of one of several worker processes: a plain `CallPolicy`, without keys of subclasses.

        Every process may have one call in flight, so more processes than `max_in_flight_total` exceed that limit.
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
