"""Anthropic's message batches: lines of requests and results, and jobs.

A batch has no name, and its requests cannot be read back; but each result contains the key of its request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import orjson

from ...schemas.json import Json
from .base import Job, Requests, Unanswered

_ERRORS = {
    "invalid_request_error": (400, "BadRequestError"),
    "authentication_error": (401, "AuthenticationError"),
    "billing_error": (402, "PaymentRequiredError"),
    "permission_error": (403, "PermissionDeniedError"),
    "not_found_error": (404, "NotFoundError"),
    "request_too_large": (413, "ContentTooLargeError"),
    "rate_limit_error": (429, "RateLimitError"),
    "api_error": (500, "InternalServerError"),
    "timeout_error": (504, "GatewayTimeoutError"),
    "overloaded_error": (529, "OverloadedError"),
}
"""HTTP status, and exception that a live call would raise, for each type of error."""
_NOT_WORKED_ON = ("canceled", "expired")
_PAGE = 100


def request_line(key: str, params: Json) -> Json:
    """Builds the line of a request."""
    return {"custom_id": key, "params": params}


def read_line(line: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | Unanswered | None]:
    """Reads a line of the results: (key, message or error), with `None` if the request was not processed."""
    key, result = line["custom_id"], line["result"]
    if result["type"] in _NOT_WORKED_ON:
        return key, None
    if result["type"] == "succeeded":
        return key, result["message"]
    body = result["error"]
    status, name = _ERRORS.get(body["error"]["type"], _ERRORS["api_error"])
    return key, Unanswered(status, name, f"Error code: {status} - {body}")


@dataclass(frozen=True)
class AnthropicBatches:
    """Anthropic's message batches.

    Attributes:
        client: A client of the package anthropic.
    """

    client: Any

    def submit(self, name: str, requests: Requests) -> str:
        """Starts a batch, without retries: each attempt may start one."""
        once = self.client.with_options(max_retries=0)
        return once.messages.batches.create(requests=_lines(requests)).id

    def find(self, name: str, requests: Requests, others: Collection[str]) -> str | None:
        """Finds the batch with the same number of requests and, once it has ended, with our keys in its results.

        A batch that is still processed is taken to be ours. If it is not, it answers none of our requests, and they are
        submitted again.
        """
        keys = {line["custom_id"] for line in _lines(requests)}
        for batch in self.client.messages.batches.list(limit=_PAGE):
            as_many = sum(batch.request_counts.to_dict().values()) == len(keys)
            if as_many and batch.id not in others and self._answers(batch, keys):
                return batch.id
        return None

    def look(self, job: str) -> Job:
        """Asks for the state of a batch."""
        batch = self.client.messages.batches.retrieve(job)
        if batch.processing_status != "ended":
            return Job(False)
        if batch.results_url is None:
            return Job(True, (), "its results are no longer kept")
        left = {what: getattr(batch.request_counts, what) for what in _NOT_WORKED_ON}
        trouble = ", ".join(f"{count} {what}" for what, count in left.items() if count)
        return Job(True, (self.client.messages.batches.with_raw_response.results(job).read(),), trouble or None)

    def close(self) -> None:
        """Closes the connections."""
        self.client.close()

    def _answers(self, batch: Any, keys: Collection[str]) -> bool:
        if batch.processing_status != "ended":
            return True
        if batch.results_url is None:
            return False
        with closing(self.client.messages.batches.results(batch.id)) as results:
            return any(result.custom_id in keys for result, _ in zip(results, range(1), strict=False))


def _lines(requests: Requests) -> list[Any]:
    return [orjson.loads(line) for line in requests.data.splitlines()]
