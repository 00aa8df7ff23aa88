"""What all tests share: where things are, and what may not be left out."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import settings

settings.register_profile("house", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("house")

ROOT = Path(__file__).resolve().parent.parent
CONFORMANCE = ROOT.parent / "shared" / "conformance"
NOT_BESIDE = "the conformance data is not beside the project"


def pytest_collection_finish() -> None:
    """The collector leaves alone what all tests have imported: a walk over it would take half a second each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the project."""
    return ROOT


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Folder of the conformance data, which is not part of the repository."""
    if not CONFORMANCE.is_dir():
        pytest.skip(NOT_BESIDE)
    return CONFORMANCE


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that runs on a thread of its own, as the engine's does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    gc.collect()  # clients close while the loop runs
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def serve(loop: asyncio.AbstractEventLoop) -> Iterator[Callable[..., str]]:
    """Starts HTTP servers on the loopback: `serve(handler)` is the address; a handler takes every request.

    A handler ends with its connection: one that hangs on after its client has left would be destroyed while it waits.
    """
    runners: list[web.AppRunner] = []

    async def start(handler: Callable[[web.Request], Awaitable[web.StreamResponse]], ssl_context: object) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048, ssl_context=ssl_context).start()  # type: ignore[arg-type]
        return f"{'https' if ssl_context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"

    def serve(handler: Callable[[web.Request], Awaitable[web.StreamResponse]], ssl_context: object = None) -> str:
        return asyncio.run_coroutine_threadsafe(start(handler, ssl_context), loop).result()

    yield serve
    for runner in runners:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Under EVALBEAM_REQUIRE_ALL=1 a test that leaves something out fails.

    But for the conformance data: it is no part of the repository, so a machine may lack it; its folder is all or none.
    """
    report: pytest.TestReport = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("EVALBEAM_REQUIRE_ALL") == "1":
        reason = str(call.excinfo and call.excinfo.value)
        if NOT_BESIDE not in reason:
            report.outcome = "failed"
            report.longrepr = f"left out although EVALBEAM_REQUIRE_ALL=1: {reason}"
    return report
