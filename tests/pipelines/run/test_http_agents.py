"""Whole runs of agents behind HTTP addresses: one that calls tools, and one that fails in every way a server can."""

import asyncio
import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from evalbeam import evaluate

COLOURS = ("red", "green", "blue")


def test_five_hundred_rows_and_a_chat_server_that_calls_tools(serve, tmp_path, monkeypatch):
    async def handler(request):
        assert request.headers["Authorization"] == "Bearer s3cret"
        body = await request.json()
        number, colour = body["messages"][-1]["content"].split()
        arguments = json.dumps({"lamp": int(number), "colour": colour if int(number) % 10 else "off"})
        call = {"id": "1", "type": "function", "function": {"name": "set_lamp", "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 5, "completion_tokens": 2}
        return web.json_response({"choices": [{"index": 0, "message": message}], "usage": usage})

    monkeypatch.setenv("CHAT_TOKEN", "s3cret")
    rows = [{"prompt": f"{i} {COLOURS[i % 3]}", "colour": COLOURS[i % 3]} for i in range(500)]
    for i, row in enumerate(rows):
        row["reference_trajectory"] = [{"tool_name": "set_lamp", "tool_input": {"lamp": i, "colour": row["colour"]}}]
    agent = {
        "preset": "openai_chat",
        "headers": {"Authorization": "Bearer ${env:CHAT_TOKEN}"},
        "body": {"model": "m"},
    }
    metrics = ["trajectory_exact_match", "tool_call_valid"]
    result = evaluate(rows, metrics, serve(handler) + "/v1/chat/completions", agent=agent, output=str(tmp_path))
    assert result.summary_metrics["row_count"] == 500
    assert result.summary_metrics["trajectory_exact_match/mean"] == 0.9
    assert result.summary_metrics["tool_call_valid/mean"] == 1.0
    table = result.metrics_table
    assert (table["status"] == "ok").all()
    assert (table["input_tokens"] == 5).all()
    assert result.manifest["config"]["agent"]["headers"] == {"Authorization": "Bearer ${env:CHAT_TOKEN}"}
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not any(b"s3cret" in path.read_bytes() for path in written)


FAILURES = {
    "raises": r"HTTP500",
    "status": r"HTTP503",
    "hangs": r"TimeoutError",
    "drops": r"ServerDisconnectedError|ClientOSError",
    "garbage": r"InvalidAnswer",
    "huge": r"InvalidAnswer",
}
PASSING = ("refused", "asked_to_wait")
KINDS = (*FAILURES, *PASSING)
ROWS = 800
MOST_REFUSED = ROWS // 50
"""Rows that each of the passing faults befalls at most: more than a few in a hundred would slow down all calls."""


class FaultServer:
    """Answers in the way that the first word of the prompt asks for; the passing faults only the first time."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.never = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        prompt = (await request.json())["prompt"]
        kind = prompt.partition(" ")[0]
        self.asked[request.headers["Idempotency-Key"]] += 1
        first = self.asked[request.headers["Idempotency-Key"]] == 1
        if kind == "raises":
            raise RuntimeError("a bug")
        if kind == "hangs":
            await self.never.wait()
        if kind == "drops":
            assert request.transport is not None
            request.transport.abort()
        if kind == "status":
            return web.Response(status=503, text="down")
        if kind in PASSING and first:
            return web.Response(status=429, headers={"Retry-After": "1"} if kind == "asked_to_wait" else {})
        if kind == "garbage":
            return web.Response(text='{"response": ', content_type="application/json")
        return web.json_response({"response": "x" * (10 << 20) if kind == "huge" else f"did {prompt}"})


def count_of(kind: str, percent: int) -> int:
    """How many of `ROWS` rows ask for a fault where so many in a hundred do."""
    count = ROWS * percent // 100 // len(KINDS)
    return min(count, MOST_REFUSED) if kind in PASSING else count


def rows_with(percent: int) -> list[dict[str, str]]:
    """`ROWS` rows of which so many in a hundred ask for a fault, each lasting kind equally often."""
    faulty = [kind for kind in KINDS for _ in range(count_of(kind, percent))]
    kinds = faulty + ["fine"] * (ROWS - len(faulty))
    return [{"prompt": f"{kind} {i}", "kind": kind, "reference": f"did {kind} {i}"} for i, kind in enumerate(kinds)]


@pytest.mark.parametrize("percent", [0, 1, 10, 40])
def test_a_server_that_fails_in_every_way(serve, tmp_path: Path, percent, record_property):
    server = FaultServer()
    policy = {"timeout": 3, "max_attempts": 2, "backoff": 0.01, "max_in_flight": 100, "failure_threshold": None}
    began = time.monotonic()
    result = evaluate(rows_with(percent), ["exact_match"], serve(server.answer), agent=policy, output=str(tmp_path))
    seconds = time.monotonic() - began
    record_property("seconds", round(seconds, 2))
    print(f"{percent} % faults: {seconds:.2f} s, {sum(server.asked.values())} requests")

    table = result.metrics_table
    assert len(table) == ROWS
    assert len(server.asked) == ROWS
    assert seconds < 60
    answered = table["kind"].isin([*PASSING, "fine"])
    assert (table.loc[answered, "exact_match/score"] == 1).all()
    assert (table.loc[answered, "status"] == "ok").all()
    for kind, error_type in FAILURES.items():
        failed = table[table["kind"] == kind]
        assert len(failed) == count_of(kind, percent)
        assert all(re.fullmatch(error_type, found) for found in failed["error_type"]), failed["error_type"].unique()
        assert (failed["exact_match/status"] == "skipped").all()
    assert set(server.asked.values()) <= {1, 2}
    assert result.summary_metrics["failure/mean"] == pytest.approx(percent / 100 * len(FAILURES) / len(KINDS))
