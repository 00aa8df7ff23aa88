"""Runs in processes of their own, to be killed, and the servers of their agent and their judge, which count calls."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from waiting import until

ClassifiedError = Callable[[web.Request, Callable[[], Awaitable[web.StreamResponse]]], Awaitable[web.StreamResponse]]
"""What happens to a call instead of, or with, its answer."""


class Server:
    """An agent, and at `/v1/chat/completions` a judge; what they answer depends on what they are asked alone.

    Attributes:
        asked: How often each call came, by its idempotency key or, of the judge's, by its text.
        answered: Calls that were answered well.
        spoiled: Calls that were not, on purpose.
        pause: Seconds an answer takes.
        fault: Given the number of a call, what happens to it; `None` answers it.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answered: set[str] = set()
        self.spoiled = 0
        self.pause = 0.02
        self.fault: Callable[[int], ClassifiedError | None] = lambda number: None
        self.url = ""
        self._due: list[tuple[int, Callable[[], None]]] = []

    def forget(self) -> None:
        """Counts anew."""
        self.asked.clear()
        self.answered.clear()
        self.spoiled = 0
        self.cancel()

    def cancel(self) -> None:
        """What was to be done at some call is not done any more."""
        self._due.clear()

    def at(self, call: int, action: Callable[[], None]) -> None:
        """Has something done when so many more calls have come, before that one is answered."""
        self._due.append((self.asked.total() + call, action))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One call."""
        asked = await request.json()
        judged = request.path.endswith("/chat/completions")
        key = asked["messages"][-1]["content"] if judged else request.headers["Idempotency-Key"]
        self.asked[key] += 1
        for due in [due for due in self._due if due[0] <= self.asked.total()]:
            self._due.remove(due)
            due[1]()

        well = False

        async def answer() -> web.StreamResponse:
            nonlocal well
            await asyncio.sleep(self.pause)
            well = True
            self.answered.add(key)
            return web.json_response(_verdict(key) if judged else _answer(asked["prompt"]))

        if (fault := self.fault(self.asked.total())) is None:
            return await answer()
        response = await fault(request, answer)
        self.spoiled += not well
        return response

    def repeats(self) -> int:
        """Calls that came again though nothing was wrong with the one before."""
        return self.asked.total() - len(self.asked) - self.spoiled


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:4], 16)


def _answer(prompt: str) -> Any:
    """An agent's answer; its latency is one that binary fractions hold, so that sums are the same in any order."""
    return {"response": prompt.upper(), "latency_in_seconds": _number(prompt) / 1024}


def _verdict(text: str) -> Any:
    verdict = json.dumps({"explanation": "It reads well.", "score": _number(text) % 5 + 1})
    choice = {"index": 0, "message": {"role": "assistant", "content": verdict}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a thread of its own, until the block ends."""
    server, loop = Server(), asyncio.new_event_loop()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()

    loop.run_until_complete(start())
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield server
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@dataclass
class Bench:
    """A folder with a dataset, in which runs are started.

    Attributes:
        folder: Where all of it is; temporary files go to `tmp` in it.
        server: Who answers.
        rows: Rows of the dataset.
        in_flight: Calls in flight of the agent, and as many of the judge, in each worker process.
        workers: Worker processes, 1 for none.
        judged: Whether a judge is asked.
        sections: Further sections of the configuration.
    """

    folder: Path
    server: Server
    rows: int = 400
    in_flight: int = 16
    workers: int = 2
    judged: bool = True
    sections: dict[str, Any] = field(default_factory=dict)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir(parents=True)
        rows = ({"prompt": f"question {i}", "reference": f"QUESTION {i}"} for i in range(self.rows))
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    @property
    def flying(self) -> int:
        """Calls in flight at once at most: what a kill may cost."""
        return self.workers * self.in_flight * (2 if self.judged else 1)

    @property
    def policy(self) -> dict[str, Any]:
        """How calls are made."""
        return {"max_in_flight": self.in_flight, "backoff": 0.05, "max_backoff": 0.2, "max_attempts": 20}

    def arguments(self, output: str) -> list[str]:
        """The command line of a run, but for its workers."""
        judge = {"type": "openai", "model": "m", "base_url": f"{self.server.url}/v1", **self.policy}
        config = {
            "dataset": {"path": str(self.folder / "rows.jsonl")},
            "agent": {"target": self.server.url, **self.policy},
            "metrics": ["exact_match", *(["fluency"] if self.judged else [])],
            **({"judges": {"default": judge}} if self.judged else {}),
            **self.sections,
            "output": {"format": "jsonl", **self.sections.get("output", {}), "path": str(self.folder / output)},
        }
        path = self.folder / f"{output}.json"
        path.write_text(json.dumps(config))
        return ["run", str(path)]

    def start(self, output: str, *before: str, alone: bool = False) -> subprocess.Popen[bytes]:
        """Starts a run in a process group of its own, which heeds Ctrl-C; what it says goes to `<output>.log`.

        Args:
            output: Name of the run.
            before: What the command follows on the command line.
            alone: Whether it has no worker processes.
        """
        given = [*self.arguments(output), *(["--workers", str(self.workers)] if self.workers > 1 and not alone else [])]
        path = os.pathsep.join([str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with open(self.folder / f"{output}.log", "ab") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", "evalbeam", *given],
                stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(self.folder / "tmp"), "PYTHONPATH": path},
                start_new_session=True, preexec_fn=heeds,
            )  # fmt: skip
        self._started.append(process)
        return process

    def end(self) -> None:
        """Kills what a test that failed has left."""
        for process in self._started:
            if process.poll() is None:
                with_all(process.pid, signal.SIGKILL)
                process.wait()

    def log(self, output: str) -> str:
        """What the starts of a run have said, the end of it."""
        return (self.folder / f"{output}.log").read_text(errors="replace")[-3000:]


def group(leader: int) -> list[int]:
    """Processes of a process group that live, but for the leader."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(pgrp) == leader and state != "Z" and int(stat.parent.name) != leader:
            found.append(int(stat.parent.name))
    return sorted(found)


def ended(process: subprocess.Popen[bytes], bench: Bench, output: str, seconds: float = 300) -> int:
    """Exit code of a run that has to end, and its processes with it."""
    try:
        code = process.wait(seconds)
        until(lambda: not group(process.pid), 15, f"processes to end: {group(process.pid)}")
    except (subprocess.TimeoutExpired, AssertionError) as error:
        left = group(process.pid)
        with_all(process.pid, signal.SIGKILL)
        process.wait()
        raise AssertionError(f"{error}; processes left: {left}\n{bench.log(output)}") from None
    return code


def with_all(leader: int, number: int) -> None:
    """Sends a signal to a process group, if there is one."""
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def leftovers(bench: Bench, output: str) -> list[str]:
    """Files that a finished run should have taken away."""
    places = (bench.folder / "tmp", bench.folder / output / ".tmp")
    return [str(p) for place in places if place.exists() for p in place.rglob("*") if p.is_file()]
