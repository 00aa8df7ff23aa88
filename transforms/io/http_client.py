"""HTTP calls: one pool of connections for each event loop, no retries, and answers of bounded size."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

_SHOWN_BYTES = 4096
"""Bytes that are read of the body of an error, for its message."""
_OPEN_FILES = 65_536
"""Open files that the process allows itself, if the system does: each call in flight has a socket."""


class Reply(NamedTuple):
    """The answer of a server.

    Attributes:
        status: HTTP status.
        headers: Headers, with names in lower case.
        body: Body of the answer; of an error (status 300 and above) its first 4,096 bytes.
        whole: Whether the body is complete; the rest of a larger one is not read.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True


class HttpClient:
    """A pool of connections, opened by the first call on the loop that makes it.

    The caller limits the calls in flight and their time; a cancelled call closes its connection. Redirects are returned
    as answers (following one would pass the headers to another server). Cookies are not stored, certificates are
    checked, proxies are those of the environment. The pool closes when the client is garbage collected.
    """

    def __init__(self) -> None:
        self._session: Any = None

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> Reply:
        """Sends one request.

        Args:
            method: HTTP method.
            url: Complete address.
            headers: Headers of the request.
            body: Body of the request.
            max_bytes: Most bytes of an answer, decompressed.

        Raises:
            aiohttp.ClientError, OSError: No answer arrived.
        """
        import aiohttp

        session = self._session or self._open()
        request = session.request(method, url, headers=headers, data=body, allow_redirects=False)
        try:
            async with request as response:
                return await _read(response, max_bytes)
        except aiohttp.ClientResponseError as error:  # its status is aiohttp's, not the server's
            raise ConnectionError(f"the answer is no HTTP: {error.message}") from None

    def _open(self) -> Any:
        import aiohttp

        _allow_open_files()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        # Private API of aiohttp: an idempotent request would be sent again on a dropped connection, an attempt that no
        # budget and no journal counts. If the attribute goes, this line has no effect, and such attempts return.
        session._retry_connection = False
        self._session = session
        weakref.finalize(
            self, _close, session, asyncio.get_running_loop()
        ).atexit = False  # at the end of the process calls may be in flight
        return session


async def _read(response: Any, max_bytes: int) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    failed = response.status >= 300
    limit = _SHOWN_BYTES if failed else max_bytes
    parts, size = [], 0
    if failed or (response.content_length or 0) <= limit:
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > limit:
                break
        else:
            return Reply(response.status, headers, b"".join(parts))
    response.close()  # closes the connection: the rest of the body is not read
    return Reply(response.status, headers, b"".join(parts)[:limit], whole=False)


def _close(session: Any, loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_running():
        return
    closed = asyncio.run_coroutine_threadsafe(session.close(), loop)
    # Unlike `get_running_loop`, this one (documented for event loops) returns `None` on a thread without a loop. On the
    # loop itself, to wait for the result would block it for ever.
    if asyncio._get_running_loop() is not loop:
        with suppress(Exception):  # the process may be ending
            closed.result(1.0)


def _allow_open_files() -> None:
    """Raises the limit of open files, usually 1,024, so that the process can have thousands of connections."""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
