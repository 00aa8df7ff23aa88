"""A process that ends takes nothing for the agent's failure: no call begins, none comes to anything, none is kept."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from queue_world import World, takes

from evalbeam import evaluate
from evalbeam.schemas.calls import Call
from evalbeam.schemas.errors import RunError
from evalbeam.transforms.calls.bundle import Bundle
from evalbeam.transforms.calls.errors import is_shutdown_error
from evalbeam.transforms.calls.loop import Loop
from evalbeam.transforms.calls.pending_call import CallGroup
from evalbeam.transforms.journal.journal import read_journal


async def fails(seconds, attempt):
    """An agent whose client is closed while it calls."""
    await takes(seconds, attempt)
    raise RuntimeError("Session is closed")


@pytest.mark.parametrize("script", [takes, fails])
def test_nothing_begins_and_nothing_is_kept_once_the_loop_is_to_end(script) -> None:
    world, kept = World(script, max_in_flight=4, failure_threshold=0.5, failure_window=4), []
    bundle = Bundle({"agent": world.client}, lambda call, _: kept.append(call) or 1)
    group = CallGroup(None, [None] * 20)
    bundle.submit(group, [Call(str(i), 10) for i in range(20)])
    world.loop.call_later(5, setattr, world.loop, "ended", True)
    world.close()
    assert len(world.attempts) == 4
    assert kept == []
    assert group.remaining == 20
    assert world.client.stopped is None  # else the others would be told to stop


def no_threads(chained: bool) -> Exception:
    """What an executor says once Python ends, by itself or through a client that wraps it."""
    try:
        try:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        except RuntimeError as error:
            if not chained:
                raise
            raise ValueError("the chain failed") from error
    except Exception as error:
        return error


@pytest.mark.parametrize("chained", [False, True])
def test_a_call_that_gets_no_thread_at_the_end_of_python_ends_the_run(chained: bool) -> None:
    async def asks(request, attempt):
        await takes(request, attempt)
        raise no_threads(chained)

    world, kept = World(asks, max_in_flight=4), []
    bundle = Bundle({"agent": world.client}, lambda call, _: kept.append(call) or 1)
    bundle.submit(CallGroup(None, [None] * 20), [Call(str(i), 10) for i in range(20)])
    world.close()
    assert kept == []
    with pytest.raises(RunError, match="the process that makes the calls is ending"):
        bundle.wait_for_some()


def test_other_errors_are_the_agents_own() -> None:
    assert not is_shutdown_error(RuntimeError("Event loop is closed"))
    assert not is_shutdown_error(ValueError("interpreter shutdown"))
    assert not is_shutdown_error(None)
    endless = RuntimeError("a")
    endless.__context__ = other = RuntimeError("b")
    other.__context__ = endless
    assert not is_shutdown_error(endless)


def test_a_process_that_goes_on_after_all_calls_with_an_engine_of_its_own(tmp_path: Path) -> None:
    """A program may catch what ended a run of its own accord, and begin another."""
    before = Loop.here()
    Loop.end()
    result = evaluate([{"prompt": "a", "reference": "A"}], ["exact_match"], str.upper, output=tmp_path / "out")
    assert result.summary_metrics["exact_match/mean"] == 1.0
    assert Loop.here() is not before
    assert before._thread is not None
    before._thread.join(timeout=30)
    assert before.is_closed()


AGENT = """
import asyncio
import atexit
import threading
import time
from concurrent.futures import ThreadPoolExecutor

calling, closed = threading.Event(), threading.Event()


async def with_client(prompt):
    calling.set()
    while not closed.is_set():
        await asyncio.sleep(0.001)
    raise RuntimeError("Session is closed")


def with_client_on_thread(prompt):
    calling.set()
    closed.wait()
    raise RuntimeError("Session is closed")


def with_executor(prompt):
    calling.set()
    main = threading.main_thread()
    main.join()
    while True:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(str.upper, prompt).result()
        time.sleep(0.001)


def close():
    closed.set()
    time.sleep(0.5)  # calls that fail now have time to be taken for the agent's failures


atexit.register(close)
"""

RUN = """
import sys
import threading
import ending_agent
from evalbeam import evaluate

name, daemon = sys.argv[1:]


def run():
    rows = [{"prompt": str(i)} for i in range(8)]
    evaluate(rows, ["exact_match"], f"ending_agent:{name}", output="out")


threading.Thread(target=run, daemon=daemon == "daemon").start()
assert ending_agent.calling.wait(60)
"""


@pytest.mark.parametrize(
    ("agent", "thread"), [("with_client", "daemon"), ("with_client_on_thread", "daemon"), ("with_executor", "joined")]
)
def test_a_program_that_ends_while_calls_are_in_flight(agent: str, thread: str, tmp_path: Path) -> None:
    (tmp_path / "ending_agent.py").write_text(textwrap.dedent(AGENT))
    command = [sys.executable, "-c", RUN, agent, thread]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    (journal,) = (path for path in (tmp_path / "out" / "journal").iterdir() if path.name != "judges")
    assert Counter(outcome.kind for _, _, outcome in read_journal(str(journal))) == {}
    if thread == "joined":
        assert "RunError" in ended.stderr
