"""Random runs: what they are, what happens to them, and whether all is well in the end. A seed decides all of it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from aiohttp import web
from killing import Bench, ClassifiedError, Server, ended, group, leftovers
from written import tables

from evalbeam.pipelines.run.result import EvaluationResult
from evalbeam.transforms.journal.segments import read_records

CODES = (0, 3, -signal.SIGKILL, -signal.SIGHUP, -signal.SIGTERM, -signal.SIGINT)
"""How a start may end that something happened to: signals that come before they are heeded kill it."""
AGENT = """
import json, urllib.request

def ask(prompt, idempotency_key):
    headers = {{"Content-Type": "application/json", "Idempotency-Key": idempotency_key}}
    request = urllib.request.Request("{url}", json.dumps({{"prompt": prompt}}).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
"""


async def _reset(request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()  # type: ignore[attr-defined]
    return web.Response()


def _status(status: int, **headers: str) -> ClassifiedError:
    async def refuse(request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        return web.json_response({"error": {"message": "not now"}}, status=status, headers=headers)

    return refuse


async def _slow(request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    await asyncio.sleep(1.0)
    return await answer()


async def _drip(request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    """An answer whose bytes come one by one."""
    whole = await answer()
    assert isinstance(whole, web.Response)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for byte in whole.body:  # type: ignore[union-attr]
        await response.write(bytes([byte]))
        await asyncio.sleep(0.01)
    return response


async def _cut(request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    """Half of an answer, and the end of the connection."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"response": "')
    return await _reset(request, answer)


def server_faults(rng: random.Random, seed: int) -> Callable[[int], ClassifiedError | None]:
    """What happens to each call: a few percent are dropped, cut or refused, and now and then all for some seconds.

    An endpoint that does nothing but refuse is asked ever more rarely: a number of refusals could take hours.
    """
    kinds = [_reset, _cut, _slow, _drip, _status(500), _status(503, **{"Retry-After": "0.1"}), _status(429)]
    share = rng.choice([0.0, 0.01, 0.04])
    storms = {rng.randrange(1000): rng.uniform(0.2, 3.0) for _ in range(rng.choice([0, 0, 1, 2]))}
    over: dict[int, float] = {}

    def fault(number: int) -> ClassifiedError | None:
        now = time.monotonic()
        over.update(
            {begin: now + seconds for begin, seconds in storms.items() if begin <= number and begin not in over}
        )
        if any(now < end for end in over.values()):
            return _status(429)
        draw = random.Random(f"{seed} {number}")
        return draw.choice(kinds) if draw.random() < share else None

    return fault


class Scene:
    """One run and what happens to it.

    Attributes:
        bench: The run.
        kills: Signals that were sent, by what they were sent to; and starts on a full disk.
        damaged: What was done to files of the journal.
        lost: Records that were taken out of the journal.
    """

    def __init__(self, seed: int, folder: Path, server: Server) -> None:
        self.rng, self.server = random.Random(seed), server
        rng = self.rng
        server.forget()
        server.pause = rng.choice([0.0, 0.02, 0.1])
        self.faults = server_faults(rng, seed)
        sections: dict[str, Any] = {"output": {"format": rng.choice(["jsonl", "csv", "parquet"])}}
        sections["trials"] = rng.choice([1, 1, 3])
        numbers = {
            "rows": rng.randrange(50, 600),
            "in_flight": rng.choice([4, 16, 48]),
            "workers": rng.choice([1, 2, 3]),
        }
        self.bench = Bench(folder, server, judged=rng.random() < 0.6, sections=sections, **numbers)
        if rng.random() < 0.3:
            (folder / "sync_agent.py").write_text(AGENT.format(url=server.url))
            sections["agent"] = {"target": "sync_agent:ask", "retry_on": ["URLError"], **self.bench.policy}
        self.kills: Counter[str] = Counter()
        self.damaged: Counter[str] = Counter()
        self.lost = 0

    def expected(self) -> tuple[dict[str, bytes], Any]:
        """The tables of a run that nothing happens to, and its instances as a frame."""
        self.server.fault = lambda number: None
        process = self.bench.start("whole", alone=True)
        assert ended(process, self.bench, "whole") == 0, self.bench.log("whole")
        self.calls = self.server.asked.total()
        found = tables(self.bench.folder / "whole"), self._frame("whole")
        self.server.forget()
        return found

    def disturbed(self) -> None:
        """Starts the run several times, and something happens to each."""
        self.server.fault = self.faults
        for _ in range(self.rng.randrange(1, 6)):
            limited = ["bash", "-c", f'ulimit -f {self.rng.randrange(4, 200)}; exec "$@"', "bash"]
            full = limited if self.rng.random() < 0.1 else []
            self.kills.update(["full disk"] if full else [])
            process = self.bench.start("out", *full)
            stopped = threading.Event()
            timers = [self._plan(process, stopped) for _ in range(self.rng.choice([1, 1, 2]))]
            code = ended(process, self.bench, "out")
            stopped.set()
            for timer in timers:
                timer.cancel()
            self.server.cancel()
            assert code in CODES, f"exit code {code}\n{self.bench.log('out')}"
            if (self.bench.folder / "out" / "manifest.json").exists():
                return
            if self.rng.random() < 0.3:
                self._damage()

    def finished(self) -> bool:
        """The same command, and nothing happens to it; whether one was needed."""
        if (self.bench.folder / "out" / "manifest.json").exists():
            return False
        code = ended(self.bench.start("out"), self.bench, "out")
        assert code == 0, f"exit code {code}\n{self.bench.log('out')}"
        return True

    def check(self, expected: tuple[dict[str, bytes], Any], undisturbed: bool) -> None:
        """Rows in are rows out, in the same bytes; few calls were made twice; nothing is left behind.

        Args:
            expected: What `expected` found.
            undisturbed: Whether the last start was, which takes away what killed ones left.
        """
        frame = self._frame("out")
        assert len(frame) == self.bench.rows * self.bench.sections["trials"]
        failed = frame[frame["status"] != "ok"]
        assert failed.empty, failed.head().to_dict("records")
        assert frame.equals(expected[1]), "other instances"
        if not self.server.spoiled:
            assert tables(self.bench.folder / "out") == expected[0], "other bytes"
        assert len(self.server.asked) == self.calls
        harmless = sum(count for name, count in self.kills.items() if name.startswith("SIGSTOP"))
        bound = (self.kills.total() - harmless) * self.bench.flying + self.lost
        assert self.server.repeats() <= bound, f"{self.server.repeats()} calls were repeated, {bound} may be"
        if undisturbed:
            assert leftovers(self.bench, "out") == []

    def _frame(self, output: str) -> Any:
        return EvaluationResult.load(str(self.bench.folder / output)).metrics_table.drop(columns="attempts")

    def _plan(self, process: subprocess.Popen[bytes], over: threading.Event) -> threading.Timer:
        """Has something happen to a start: at some call, or after some time."""
        number = self.rng.choice([signal.SIGKILL] * 3 + [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP])
        target = self.rng.choice(["parent", "worker", "group"] if self.bench.workers > 1 else ["parent", "group"])
        pick, pause = self.rng.random(), self.rng.uniform(0.1, 3.0)

        def send() -> None:
            workers = group(process.pid)
            if process.poll() is not None or (target == "worker" and not workers):
                return
            victim = workers[int(pick * len(workers))] if target == "worker" else process.pid
            kill = os.killpg if target == "group" else os.kill
            self.kills[f"{signal.Signals(number).name} {target}"] += 1
            with suppress(ProcessLookupError):
                kill(victim, number)
                if number == signal.SIGSTOP:
                    threading.Thread(target=go_on, args=(kill, victim)).start()

        def go_on(kill: Callable[[int, int], None], victim: int) -> None:
            over.wait(pause)
            with suppress(ProcessLookupError):
                kill(victim, signal.SIGCONT)

        timer = threading.Timer(self.rng.uniform(0.5, 12.0), send)
        if self.rng.random() < 0.7:
            self.server.at(
                self.rng.randrange(1, max(2, self.calls // 2)), lambda: threading.Thread(target=send).start()
            )
        else:
            timer.start()
        return timer

    def _damage(self) -> None:
        """Cuts, flips or doubles a file of the journal."""
        segments = sorted((self.bench.folder / "out" / "journal").rglob("seg-*"))
        if not segments:
            return
        segment, how = self.rng.choice(segments), self.rng.choice(["cut", "flip", "double"])
        self.damaged[how] += 1
        data, before = segment.read_bytes(), _records(segment)
        at = self.rng.randrange(len(data) + 1)
        if how == "double":
            shutil.copy(segment, segment.with_name(f"seg-{self.rng.getrandbits(128):032x}"))
        elif how == "cut":
            segment.write_bytes(data[:at])
        elif data:
            at = min(at, len(data) - 1)
            segment.write_bytes(data[:at] + bytes([data[at] ^ 1 << self.rng.randrange(8)]) + data[at + 1 :])
        self.lost += before - _records(segment)


def _records(segment: Path) -> int:
    return sum(1 for _ in read_records(str(segment), lambda torn: None))


def played(seed: int, folder: Path, server: Server) -> Scene:
    """A seed's scene from its beginning to its end.

    Raises:
        AssertionError: Something was lost, wrong or hung.
    """
    scene = Scene(seed, folder, server)
    expected = scene.expected()
    scene.disturbed()
    scene.check(expected, scene.finished())
    return scene
