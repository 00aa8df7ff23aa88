"""A client of rate limit services that speak Envoy's protocol: such a service counts the calls of all its clients.

Beam's `EnvoyRateLimiter` uses the same protocol (`ShouldRateLimit`, with one hit for each call), but sleeps on the
thread that asks. Here a few requests are sent at once, no more than calls could start, so that calls do not wait for
each other because of the service's latency. A service that cannot be reached permits nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from ...schemas.config.calls import CallPolicy, RateLimit

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
MOST = 16
"""Most requests in flight and unused permits together: a permit counts against the quota although no call uses it."""

_TIMEOUT = 5.0
"""Seconds after which a request to the service has failed."""
_RECONNECT = 5000
"""Most milliseconds between two attempts of gRPC to connect; its default is two minutes."""
_FIRST, _LONGEST = 0.05, 5.0
"""Seconds of the first and the longest pause if the service names none; doubled after each refusal."""
_JITTER = 0.1
"""Share by which a pause that the service names is prolonged at random, so that workers do not return together."""


class Answer(NamedTuple):
    """The answer of the service.

    Attributes:
        granted: Whether a call may start.
        wait: Seconds until the limit is reset; 0 if the service does not say.
        error: Name of the gRPC status if the request failed.
    """

    granted: bool
    wait: float = 0.0
    error: str | None = None


Ask: TypeAlias = Callable[[Callable[[Answer], None]], None]
"""Requests one permit without waiting, and calls back on the loop's thread."""


class RemoteRateLimiter:
    """The permits of one client of a queue; everything runs on the loop's thread.

    After a refusal a single request is sent once the limit is reset; each permit doubles the number of requests.

    Args:
        loop: The loop whose clock and timers are used.
        limit: The service and its descriptors; named in the reason why calls end.
        patience: Seconds without any permit, though calls wait, after which no more calls are made.
        ask: Requests a permit.
        wake: Called after each permit and each refusal, and when the next request may be sent.
        stop: Called with the reason when patience has ended.
        close: Closes the connection that `ask` uses.
        draw: Draws from [0, 1); injected by tests.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: RateLimit,
        patience: float,
        ask: Ask,
        wake: Callable[[], None],
        stop: Callable[[str], None],
        close: Callable[[], None] = lambda: None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.close = close
        self._loop, self._limit, self._patience, self._draw = loop, limit, patience, draw
        self._ask, self._wake, self._stop = ask, wake, stop
        self._here = self._asked = self._wanted = 0
        self._width = 1
        self._backoff = _FIRST
        self._paused = False
        self._without_since: float | None = None

    @property
    def refused(self) -> bool:
        """Whether the last request was refused or failed, and the next one is not sent yet."""
        return self._paused

    def ready(self, wanted: int) -> bool:
        """Returns whether there is a permit; if not, requests as many as are wanted.

        Args:
            wanted: Calls that could start, at least 1.
        """
        self._wanted = wanted
        self._request_permits()
        return self._here > 0

    def use(self) -> None:
        """Uses a permit for a call that starts."""
        self._here -= 1

    def _request_permits(self) -> None:
        if self._without_since is None and not self._here:
            self._without_since = self._loop.time()
        while not self._paused and self._asked < self._width and self._asked + self._here < min(MOST, self._wanted):
            self._asked += 1
            self._ask(self._on_answer)

    def _on_answer(self, answer: Answer) -> None:
        self._asked -= 1
        if answer.granted:
            self._here += 1
            self._width = min(MOST, 2 * self._width)
            self._backoff, self._without_since = _FIRST, None
            self._wake()
            return
        self._width = 1
        since, now = self._without_since, self._loop.time()
        left = self._patience if since is None else since + self._patience - now
        if left <= 0.0:
            self._stop(self._reason(answer))
        elif not self._paused:
            self._paused = True
            self._loop.call_later(min(left, self._pause(answer)), self._resume)
            self._wake()

    def _pause(self, answer: Answer) -> float:
        if answer.error is None and answer.wait > 0.0:
            return answer.wait * (1.0 + _JITTER * self._draw())
        self._backoff, wait = min(_LONGEST, 2 * self._backoff), self._backoff
        return wait * (0.5 + self._draw())

    def _resume(self) -> None:
        self._paused = False
        self._wanted = 0
        self._wake()
        if not self._wanted:  # `wake` has not called `ready`: no call waits any more
            self._without_since = None

    def _reason(self, answer: Answer) -> str:
        limit = self._limit
        name = f"the rate limit service {limit.service}"
        if answer.error is not None:
            return f"{name} has not answered during rate_limit_timeout: {answer.error}"
        return f"{name} has allowed no call of domain {limit.domain!r} during rate_limit_timeout"


class RateLimitClient:
    """Sends requests to a rate limit service over gRPC, without TLS as Beam does, on the threads of a channel.

    The messages are those of `apache_beam.io.components.rate_limit_pb2`, which is internal to Beam: if it moves, the
    import fails at the first call of an endpoint with `rate_limit` (test_rate_limit_service.py covers it).

    Args:
        limit: The service and its descriptors.
        loop: The loop on whose thread answers arrive.
    """

    def __init__(self, limit: RateLimit, loop: asyncio.AbstractEventLoop) -> None:
        import grpc
        from apache_beam.io.components import rate_limit_pb2

        words: Any = rate_limit_pb2  # `Any`: protobuf creates its classes at import, unseen by type checkers
        self._loop, self._ok = loop, words.RateLimitResponse.OK
        self._channel = grpc.insecure_channel(limit.service, [("grpc.max_reconnect_backoff_ms", _RECONNECT)])
        self._call: Any = self._channel.unary_unary(
            METHOD, words.RateLimitRequest.SerializeToString, words.RateLimitResponse.FromString
        )
        entry, descriptor = words.RateLimitDescriptor.Entry, words.RateLimitDescriptor
        named = [[entry(key=k, value=v) for k, v in entries.items()] for entries in limit.descriptors]
        descriptors = [descriptor(entries=entries) for entries in named]
        self._request = words.RateLimitRequest(domain=limit.domain, descriptors=descriptors, hits_addend=1)

    def ask(self, done: Callable[[Answer], None]) -> None:
        """Requests one permit; see `Ask`."""
        future = self._call.future(self._request, timeout=_TIMEOUT)
        future.add_done_callback(lambda _: self._pass_on(done, self._answer(future)))

    def close(self) -> None:
        """Closes the connection, which cancels the requests in flight."""
        self._channel.close()

    def _pass_on(self, done: Callable[[Answer], None], answer: Answer) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(done, answer)

    def _answer(self, future: Any) -> Answer:
        if future.cancelled():
            return Answer(False, error="CANCELLED")
        error = future.exception()
        if error is not None:
            return Answer(False, error=error.code().name)
        response = future.result()
        waits = [s.duration_until_reset.ToTimedelta().total_seconds() for s in response.statuses if s.code != self._ok]
        return Answer(response.overall_code == self._ok, max(waits, default=0.0))


def connect_limiter(
    policy: CallPolicy, loop: asyncio.AbstractEventLoop, wake: Callable[[], None], stop: Callable[[str], None]
) -> RemoteRateLimiter | None:
    """Connects a client to the rate limit service of its policy; `None` if the policy names none."""
    limit = policy.rate_limit
    if limit is None:
        return None
    client = RateLimitClient(limit, loop)
    return RemoteRateLimiter(loop, limit, policy.rate_limit_timeout, client.ask, wake, stop, client.close)
