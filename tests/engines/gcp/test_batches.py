"""Batches of Vertex AI: requests and results on gs:// or in BigQuery, the job over HTTP by google-genai."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from batch_server import serving_batches
from gemini_batch_server import VertexBatchServer, VertexTableServer
from google.cloud.bigquery import Dataset
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


def run(server: VertexBatchServer, path: str, mode: str, **more: str) -> Any:
    judge = {
        "type": "google", "model": "fake-1", "project": "p", "location": "europe-west4", "base_url": server.url,
        "mode": mode, "max_attempts": 2, **more,
    }  # fmt: skip
    return evaluate(ROWS, ["fluency"], judges={"default": judge}, output=path, shards=8)


def test_a_batch_run_by_vertex_gives_the_tables_of_a_live_run(cloud: Any, tmp_path: Path) -> None:
    with serving_batches(VertexBatchServer) as server:
        assert isinstance(server, VertexBatchServer)
        server.read = lambda path: cloud.file(path.removeprefix(cloud.url() + "/")).read_bytes()
        server.write = lambda path, data: cloud.put(path.removeprefix(cloud.url() + "/"), data)
        check_rounds(server, tmp_path, cloud.url("vertex/batch"))
    assert tables(cloud.file("vertex/batch")) == tables(tmp_path)


def test_a_batch_run_by_tables_gives_the_tables_of_a_live_run(warehouse: Any, tmp_path: Path) -> None:
    """Here the rows are in BigQuery alone: the run's folder is on disk."""
    own = Dataset(f"{warehouse.client.project}.batches")
    own.location = "europe-west4"
    warehouse.client.create_dataset(own)
    with serving_batches(VertexTableServer) as server:
        assert isinstance(server, VertexTableServer)
        server.bigquery = warehouse.client
        out = tmp_path / "batch"
        check_rounds(server, tmp_path / "live", str(out), batch_into=f"{warehouse.client.project}.batches")
    assert tables(out) == tables(tmp_path / "live")


def check_rounds(server: VertexBatchServer, live_path: Path, path: str, **more: str) -> None:
    """Runs live and in batches, of which a share fails and one expires."""
    server.model.said = said
    live = run(server, str(live_path), "live")
    assert (live.state, len(server.model.asked)) == ("finished", 500)
    server.model.asked.clear()
    assert run(server, path, "batch", **more).state == "pending"
    assert [len(ids) for ids in server.requests] == [500]

    server.work(fate=lambda number: 500 if number % 20 == 0 else 200)  # 5 % fail
    assert run(server, path, "batch", **more).state == "pending"
    assert set(server.requests[1]) == {key for i, key in enumerate(server.requests[0]) if i % 20 == 0}
    server.work("expired", fate=lambda number: 0 if number >= 10 else 200)
    assert run(server, path, "batch", **more).state == "pending"
    assert set(server.requests[2]) == set(server.requests[1][10:])
    server.work()
    last = run(server, path, "batch", **more)
    assert (last.state, [len(ids) for ids in server.requests]) == ("finished", [500, 25, 15])
    assert max(Counter(asked.user for asked in server.model.asked).values()) == 1
    assert set(last.metrics_table["fluency/status"]) == {"scored", "error"}
    assert last.manifest["judging"]["spent"] == live.manifest["judging"]["spent"]
