import http.client
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime

import grpc
import pytest
import requests
from google.api_core import exceptions as google
from hypothesis import example, given
from hypothesis import strategies as st

from evalbeam.transforms.calls.errors import ClassifiedError, classify_error, clean


def requests_error(status, headers=None):
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers or {})
    return requests.HTTPError(f"{status} Error", response=response)


class RpcError(grpc.RpcError):
    def __init__(self, code):
        self._code = code

    def code(self):
        return self._code


# Exceptions of real clients, and what their documentation says of them.
CASES = [
    (TimeoutError(), "timeout"),
    (requests.ConnectTimeout(), "timeout"),
    (requests.ReadTimeout(), "timeout"),
    (requests.ConnectionError(), "transient"),
    (requests_error(429), "rate_limited"),
    (requests_error(503), "transient"),
    (requests_error(408), "transient"),
    (requests_error(404), "permanent"),
    (urllib.error.HTTPError("http://x", 500, "down", Message(), None), "transient"),
    (urllib.error.HTTPError("http://x", 401, "who", Message(), None), "permanent"),
    (http.client.IncompleteRead(b""), "transient"),
    (http.client.RemoteDisconnected(), "transient"),
    (BrokenPipeError(), "transient"),
    (google.ResourceExhausted("quota"), "rate_limited"),
    (google.TooManyRequests("quota"), "rate_limited"),
    (google.ServiceUnavailable("down"), "transient"),
    (google.InternalServerError("down"), "transient"),
    (google.DeadlineExceeded("late"), "timeout"),
    (google.InvalidArgument("bad"), "permanent"),
    (google.PermissionDenied("no"), "permanent"),
    (RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED), "rate_limited"),
    (RpcError(grpc.StatusCode.UNAVAILABLE), "transient"),
    (RpcError(grpc.StatusCode.DEADLINE_EXCEEDED), "timeout"),
    (RpcError(grpc.StatusCode.INVALID_ARGUMENT), "permanent"),
    (KeyError("prompt"), "permanent"),
]


@pytest.mark.parametrize(("error", "kind"), CASES, ids=lambda v: type(v).__name__ if isinstance(v, Exception) else v)
def test_exceptions_of_real_clients(error, kind):
    classified = classify_error(error)
    assert classified.kind == kind
    assert classified.error_type == type(error).__name__
    if isinstance(error, urllib.error.HTTPError):
        error.close()


def test_retry_after_in_seconds_and_as_a_date():
    assert classify_error(requests_error(429, {"retry-after": "12"})).retry_after == 12
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < classify_error(requests_error(503, {"Retry-After": date})).retry_after <= 100
    by_its_clock = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:17 GMT"}
    assert classify_error(requests_error(429, by_its_clock)).retry_after == 17
    assert classify_error(requests_error(429, {**by_its_clock, "Date": "today"})).retry_after == 0
    assert classify_error(requests_error(429, {"Retry-After": "soon"})).retry_after is None
    assert classify_error(requests_error(429, {"Retry-After": "-1"})).retry_after is None
    assert classify_error(requests_error(400, {"Retry-After": "12"})).retry_after is None


@given(st.text("0123456789 :,+-JanFebMarWedGMTUTC", max_size=40))
@example("Wed, 21 Oct 99999999999999 07:28:00 GMT")
@example("Fri, 31 Dec 9999 23:59:59 -9999")
def test_no_word_of_a_server_is_an_error_of_ours(text):
    wait = classify_error(requests_error(429, {"Retry-After": text})).retry_after
    assert wait is None or 0 <= wait < float("inf")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<Agent object at 0x7f3c2a1b> failed", "<Agent object> failed"),
        ("no answer after 5.03 seconds", "no answer after <duration>"),
        ("timed out (12ms of 10 ms)", "timed out (<duration> of <duration>)"),
        ("took 1.5e-3s", "took <duration>"),
        ("row 12 of shard 3s2 has 4 columns", "row 12 of shard 3s2 has 4 columns"),
    ],
)
def test_texts_lose_addresses_and_durations(text, shown):
    assert clean(text) == shown


@given(st.text(st.characters(), max_size=5000))
def test_texts_can_be_written_anywhere(text):
    shown = clean(text)
    assert len(shown) <= 1000
    shown.encode()


def test_an_error_that_cannot_even_be_shown():
    class Spiteful(Exception):
        def __str__(self):
            raise RuntimeError

        def __getattr__(self, name):
            raise RuntimeError

    assert classify_error(Spiteful()) == ClassifiedError("permanent", "Spiteful", "")
