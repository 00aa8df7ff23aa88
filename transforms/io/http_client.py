"""Calls over HTTP: one pool of connections for each event loop, no retries of its own, answers read up to a size."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

_SHOWN_BYTES = 4096
_OPEN_FILES = 65_536


class Reply(NamedTuple):
    """What a server answered.

    Attributes:
        status: HTTP status.
        headers: Names in lower case.
        body: Its bytes; of an error (status 300 and above) the first 4,096.
        whole: Whether that is all of an answer; a larger one is not read.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True


class HttpClient:
    """A pool of connections, opened with the first call on the loop that makes it.

    How many calls are in flight is the caller's business, and so are time limits: a call that is cancelled gives its
    connection up. Redirects are answers (following one would hand the headers on), cookies are not kept, certificates
    are checked, proxies are those of the environment. The pool closes when nobody holds the client any more.
    """

    def __init__(self) -> None:
        self._session: Any = None

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> Reply:
        """Makes one call.

        Args:
            method: HTTP method.
            url: Complete address.
            headers: Of the request.
            body: Of the request.
            max_bytes: Size of an answer at most, decompressed.

        Raises:
            aiohttp.ClientError, OSError: There is no answer.
        """
        import aiohttp

        session = self._session or self._open()
        request = session.request(method, url, headers=headers, data=body, allow_redirects=False)
        try:
            async with request as response:
                return await _read(response, max_bytes)
        except aiohttp.ClientResponseError as error:  # with a status that is aiohttp's, not the server's
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
        session._retry_connection = False  # a GET would be sent again on a dropped connection, unseen by the journal
        self._session = session
        weakref.finalize(self, _close, session, asyncio.get_running_loop()).atexit = False  # calls may be in flight
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
    response.close()  # what is left of it is not wanted
    return Reply(response.status, headers, b"".join(parts)[:limit], whole=False)


def _close(session: Any, loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_running():
        return
    closed = asyncio.run_coroutine_threadsafe(session.close(), loop)
    if asyncio._get_running_loop() is not loop:
        with suppress(Exception):  # the process may be ending
            closed.result(1.0)


def _allow_open_files() -> None:
    """Lets the process have thousands of connections: the usual limit is 1,024 files, and it may raise it itself."""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
