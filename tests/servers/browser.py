"""A headless Chromium, spoken to over its DevTools protocol: opens pages, runs scripts, counts what is fetched."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --remote-debugging-port=0 --js-flags=--expose-gc"
)


def find_chromium() -> str | None:
    """Returns the path of an installed Chromium, `None` without one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


class Tab:
    """A tab of a browser.

    Attributes:
        fetched: Bytes that came over the network since the page was opened.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, loop: asyncio.AbstractEventLoop) -> None:
        self.fetched = 0
        self._socket, self._loop, self._id = socket, loop, 0

    def open(self, address: str) -> None:
        """Starts to open a page; does not wait for it."""
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        self.fetched = 0
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """Returns the value of an expression; of a promise, what it is resolved to."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(told["exceptionDetails"]["exception"].get("description", told))
        return told["result"].get("value")

    def wait(self, condition: str, seconds: float = 60) -> None:
        """Waits until an expression is true in the page.

        Raises:
            TimeoutError: It is not in time.
        """
        met = f"(() => {{ try {{ return {condition} }} catch {{ return false }} }})()"
        look = f"const look = () => {{ if ({met}) done(1); else setTimeout(look, 4) }}"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):  # a promise dies with the page that the new one replaces
                stop = "setTimeout(() => done(0), 1000)"
                if self.run(f"new Promise(done => {{ {stop}; {look}; look() }})"):
                    return
        raise TimeoutError(f"waited {seconds:g} seconds for {condition}")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        return self._loop.run_until_complete(self._call(method, given))

    async def _call(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        await self._socket.send_json({"id": self._id, "method": method, "params": given})
        while True:
            told = await self._socket.receive_json(timeout=60)
            if told.get("method") == "Network.loadingFinished":
                self.fetched += int(told["params"]["encodedDataLength"])
            if told.get("id") == self._id:
                if "error" in told:
                    raise RuntimeError(f"{method}: {told['error']}")
                return told["result"]


@contextlib.contextmanager
def browsing(size: tuple[int, int] = (1400, 900)) -> Iterator[Tab]:
    """A tab of a new browser, which is ended with the block."""
    program = find_chromium()
    if program is None:
        raise FileNotFoundError("no Chromium is installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        window = f"--window-size={size[0]},{size[1]}"
        command = [program, *FLAGS.split(), window, f"--user-data-dir={profile}", "about:blank"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                found = (re.search(r"ws://([^/]+)/", line) for line in process.stderr)
                with _speaking(next(match[1] for match in found if match)) as tab:
                    yield tab
            finally:
                process.kill()


@contextlib.contextmanager
def _speaking(host: str) -> Iterator[Tab]:
    loop = asyncio.new_event_loop()

    async def connect() -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]:
        session = aiohttp.ClientSession()
        async with session.get(f"http://{host}/json/list") as answer:
            pages = [one for one in await answer.json() if one["type"] == "page"]
        return session, await session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)

    session, socket = loop.run_until_complete(connect())
    try:
        yield Tab(socket, loop)
    finally:
        loop.run_until_complete(session.close())
        loop.close()


def address_of(path: str | Path) -> str:
    """The address of a file."""
    return Path(path).resolve().as_uri()
