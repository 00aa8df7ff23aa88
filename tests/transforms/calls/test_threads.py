"""What coroutines hand to threads: as many as there are calls, and none that hangs keeps the process."""

import asyncio
import subprocess
import sys
import threading
from contextvars import Context, ContextVar

import pytest

from evalbeam.transforms.calls.threads import Job, LoopExecutor, Threads


@pytest.fixture
def own():
    """A loop whose executor is ours."""
    loop = asyncio.new_event_loop()
    threads = Threads(loop)
    loop.set_default_executor(LoopExecutor(threads))
    yield loop
    threads.close()
    loop.close()


def test_all_run_at_once(own):
    together = threading.Barrier(200, timeout=30)

    async def several():
        return await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(200)))

    assert sorted(own.run_until_complete(several())) == list(range(200))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_what_is_raised_reaches_the_coroutine(own, error):
    def fail():
        raise error

    async def caught():
        try:
            await asyncio.to_thread(fail)
        except BaseException as found:
            return found

    assert own.run_until_complete(caught()) is error


def test_a_call_that_is_given_up_ends_unheard(own):
    go_on = threading.Event()

    async def given_up():
        task = asyncio.ensure_future(asyncio.to_thread(go_on.wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        return await asyncio.to_thread(go_on.is_set)

    assert own.run_until_complete(given_up())


def test_what_a_job_sets_in_its_context_is_seen_by_no_other(own):
    row, seen, done = ContextVar("row", default=None), [], asyncio.Event()
    threads = Threads(own)

    def act(number):
        seen.append(row.get())
        row.set(number)
        return number

    def ended(job):
        if job.value < 3:  # on the thread that is idle now
            threads.start(Job(act, job.value + 1, ended, Context()))
        else:
            done.set()

    async def one_after_the_other():
        threads.start(Job(act, 0, ended, Context()))
        await done.wait()

    own.run_until_complete(one_after_the_other())
    threads.close()
    assert seen == [None] * 4


HANGS = """
import asyncio, threading
from evalbeam.transforms.calls.engine import Engine

began = threading.Event()

def hang():
    began.set()
    threading.Event().wait()

asyncio.run_coroutine_threadsafe(asyncio.to_thread(hang), Engine.here().loop)
began.wait()
print("ended")
"""


def test_a_call_that_hangs_does_not_keep_the_process():
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ended\n")
