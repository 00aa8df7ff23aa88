"""Concurrent calls of user functions: async ones on the event loop of this process, slow sync ones on threads."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from .loop import Loop

Result: TypeAlias = tuple[Any, BaseException | None]
"""(value returned, exception raised) of a call."""

SLOW = 0.002
"""Mean seconds of a call above which threads are worth their cost."""
PATIENCE = 0.05
"""Seconds of calls one by one before the mean is looked at."""


def call_each(
    calls: Sequence[Callable[[], Any]],
    limit: int,
    is_async: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Result]:
    """Makes all calls and returns their results in order; catches whatever a call raises, `SystemExit` included.

    Args:
        calls: The calls; one that returns an awaitable has its result awaited on the loop.
        limit: Most calls at once.
        is_async: Whether the calls only create coroutines, so that all run on the loop and none needs a thread.
        clock: Returns seconds; decides only on which thread a call runs.
    """
    if is_async:
        return asyncio.run_coroutine_threadsafe(_gather(calls, limit), Loop.here()).result()
    results: list[Result] = []
    began = clock()
    for call in calls:
        results.append(_call_guarded(call))
        spent = clock() - began
        if limit > 1 and spent > PATIENCE and spent > SLOW * len(results):
            break
    rest = calls[len(results) :]
    if rest:
        with ThreadPoolExecutor(min(limit, len(rest)), "evalbeam-metric") as threads:
            results += threads.map(_call_guarded, rest)
    return results


def _call_guarded(call: Callable[[], Any]) -> Result:
    try:
        value = call()
        if inspect.isawaitable(value):
            return asyncio.run_coroutine_threadsafe(_await_guarded(lambda: value), Loop.here()).result()
        return value, None
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # a function that calls sys.exit() is a failed row
        return None, error


async def _gather(calls: Sequence[Callable[[], Any]], limit: int) -> list[Result]:
    window = asyncio.Semaphore(limit)

    async def one(call: Callable[[], Any]) -> Result:
        async with window:
            return await _await_guarded(call)

    return await asyncio.gather(*map(one, calls))


async def _await_guarded(call: Callable[[], Any]) -> Result:
    try:
        return await call(), None
    except BaseException as error:  # anything that left a task, SystemExit above all, would end the loop's thread
        return None, error
