"""An agent behind HTTP, in a process of its own. It says how long it took, and counts what it was asked.

    python tests/servers/agent_server.py      prints its address; GET tells {"calls": ..., "rows": ...}, DELETE forgets

Rows are told apart by `Idempotency-Key`. What it answers, and which rows it refuses, depends on the prompt alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web


class Agent:
    """The handlers, and how often each row was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.Response:
        """One call; the latency is one that binary fractions hold, so that sums of it are the same in any order."""
        prompt = (await request.json())["prompt"]
        self.asked[request.headers["Idempotency-Key"]] += 1
        number = int(hashlib.sha256(prompt.encode()).hexdigest()[:4], 16)
        if number % 97 == 0:
            return web.json_response({"error": "no such thing"}, status=422)
        call = {"tool_name": f"t{number % 3}", "tool_input": {"x": number % 2}}
        found = {"response": prompt.upper(), "predicted_trajectory": [call], "latency_in_seconds": number / 1024}
        return web.json_response(found)

    async def counts(self, request: web.Request) -> web.Response:
        """Calls, and the rows they were about."""
        return web.json_response({"calls": self.asked.total(), "rows": len(self.asked)})

    async def forget(self, request: web.Request) -> web.Response:
        """Begins to count anew."""
        self.asked.clear()
        return await self.counts(request)


async def serve() -> None:
    """Serves until the standard input ends, which it does with the process that started this."""
    agent, app = Agent(), web.Application()
    app.add_routes([web.post("/", agent.answer), web.get("/", agent.counts), web.delete("/", agent.forget)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=2048).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


@contextmanager
def serving() -> Iterator[str]:
    """Runs it until the block ends; gives its address."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, __file__], **pipes) as process:  # type: ignore[call-overload]
        yield process.stdout.readline().strip()
        process.communicate(timeout=30)


def counted(url: str, method: str = "GET") -> dict[str, int]:
    """What a server counted so far."""
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    asyncio.run(serve())
