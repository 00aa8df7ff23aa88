"""Batches of Vertex AI: requests and results on gs://, the job over HTTP by google-genai."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from batch_server import serving_batches
from gemini_batch_server import VertexBatchServer
from model_server import Asked, Said, verdict
from written import tables

from evalbeam import evaluate

pytestmark = pytest.mark.engines

ROWS = [{"prompt": f"question {i}", "response": f"answer {i}"} for i in range(500)]


def said(asked: Asked) -> Said:
    """A verdict that depends on the question alone; now and then none."""
    number = int(hashlib.sha256(asked.user.encode()).hexdigest(), 16)
    if number % 41 == 0:
        return Said(status=400)
    return verdict(explanation=f"points {number % 5}", score=number % 5 + 1)


def run(server: VertexBatchServer, path: str, mode: str) -> Any:
    judge = {
        "type": "google", "model": "fake-1", "project": "p", "location": "europe-west4", "base_url": server.url,
        "mode": mode, "max_attempts": 2,
    }  # fmt: skip
    return evaluate(ROWS, ["fluency"], judges={"default": judge}, output=path, shards=8)


def test_a_batch_run_by_vertex_gives_the_tables_of_a_live_run(cloud: Any, tmp_path: Path) -> None:
    with serving_batches(VertexBatchServer) as server:
        assert isinstance(server, VertexBatchServer)
        server.read = lambda path: cloud.file(path.removeprefix(cloud.url() + "/")).read_bytes()
        server.write = lambda path, data: cloud.put(path.removeprefix(cloud.url() + "/"), data)
        server.model.said = said
        live = run(server, str(tmp_path), "live")
        assert (live.state, len(server.model.asked)) == ("finished", 500)
        server.model.asked.clear()
        path = cloud.url("vertex/batch")
        assert run(server, path, "batch").state == "pending"
        assert [len(ids) for ids in server.requests] == [500]

        server.work(fate=lambda number: 500 if number % 20 == 0 else 200)  # 5 % fail
        assert run(server, path, "batch").state == "pending"
        assert set(server.requests[1]) == {key for i, key in enumerate(server.requests[0]) if i % 20 == 0}
        server.work("expired", fate=lambda number: 0 if number >= 10 else 200)
        assert run(server, path, "batch").state == "pending"
        assert set(server.requests[2]) == set(server.requests[1][10:])
        server.work()
        last = run(server, path, "batch")
        assert (last.state, [len(ids) for ids in server.requests]) == ("finished", [500, 25, 15])
        assert max(Counter(asked.user for asked in server.model.asked).values()) == 1
    assert tables(cloud.file("vertex/batch")) == tables(tmp_path)
    assert set(last.metrics_table["fluency/status"]) == {"scored", "error"}
    assert last.manifest["judging"]["spent"] == live.manifest["judging"]["spent"]
