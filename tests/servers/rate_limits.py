"""A rate limit service on loopback in the messages of Envoy's own protocol; its limit is a token bucket."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import grpc
from token_bucket import Bucket

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of pydantic, about how the package declares its messages
    from envoy_data_plane.envoy.extensions.common.ratelimit.v3 import RateLimitDescriptor, RateLimitDescriptorEntry
    from envoy_data_plane.envoy.service.ratelimit.v3 import (
        RateLimitRequest,
        RateLimitResponse,
        RateLimitResponseCode,
        RateLimitResponseDescriptorStatus,
    )

__all__ = ["RateLimitDescriptor", "RateLimitDescriptorEntry", "RateLimits", "serving"]


class RateLimits(grpc.GenericRpcHandler):
    """The service.

    Attributes:
        granted: When permits were given, by `time.monotonic()`.
        refused: Questions that got none.
        asked: The questions.
        broken: Whether it answers UNAVAILABLE instead.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket, self.broken = bucket, False
        self.granted: list[float] = []
        self.asked: list[RateLimitRequest] = []
        self.refused = self.failed = 0
        self._lock = threading.Lock()

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method != "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit":
            return None
        return grpc.unary_unary_rpc_method_handler(self._answer, RateLimitRequest.parse, bytes)

    def _answer(self, request: RateLimitRequest, context: grpc.ServicerContext) -> RateLimitResponse:
        with self._lock:
            if self.broken:
                self.failed += 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
            self.asked.append(request)
            now = time.monotonic()
            wait = self.bucket.take(now, request.hits_addend or 1)
            if not wait:
                self.granted.append(now)
            self.refused += bool(wait)
        code = RateLimitResponseCode.OVER_LIMIT if wait else RateLimitResponseCode.OK
        status = RateLimitResponseDescriptorStatus(code=code, duration_until_reset=timedelta(seconds=wait))
        return RateLimitResponse(overall_code=code, statuses=[status])


@contextmanager
def serving(service: RateLimits, port: int = 0) -> Iterator[str]:
    """The address of a service while it runs."""
    server = grpc.server(ThreadPoolExecutor(8), [service])
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
