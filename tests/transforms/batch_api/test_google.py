"""Lines of google-genai's batches against what its client sends and reads, and Vertex AI's jobs over HTTP."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_server import serving_batches
from gemini_batch_server import VertexBatchServer, VertexTableServer, serving_tables
from google.api_core.exceptions import BadRequest

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.judging import Message, Usage
from evalbeam.transforms.batch_api.base import Requests, Unanswered
from evalbeam.transforms.batch_api.google import VertexBatches, read_line
from evalbeam.transforms.batch_api.tables import load_requests
from evalbeam.transforms.judges.base import Question, Reply
from evalbeam.transforms.judges.google import GoogleJudge

KEY = hashlib.sha256(b"a question").hexdigest()
QUESTION = Question((Message("system", "the system's"), Message("user", "the user's")), {"type": "object"}, KEY)
SPENT = {"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 1}


def judge(vertex: bool, **more: Any) -> GoogleJudge:
    return GoogleJudge(model="fake-1", vertex=vertex, **more)


@pytest.mark.parametrize("vertex", [False, True])
def test_a_line_holds_what_a_live_call_sends(vertex: bool) -> None:
    more = {"thinking_config": {"thinking_budget": 0}, "labels": {"team": "a"}} if vertex else {}
    line: Any = judge(vertex, temperature=0.5, request=more).batch_line(QUESTION, KEY)
    request = line["request"]
    assert [part["text"] for content in request["contents"] for part in content["parts"]] == ["the user's"]
    assert request["systemInstruction"]["parts"] == [{"text": "the system's"}]
    made = {"temperature": 0.5, "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
    assert made.items() <= request["generationConfig"].items()
    if not vertex:
        assert line.keys() == {"key", "request"}
        assert line["key"] == KEY
        return
    assert line.keys() == {"request"}
    assert request["labels"].keys() == {"team", "evalbeam_key"}
    assert all(len(label) <= 63 and label == label.lower() for label in request["labels"].values())
    assert read_line({**line, "response": {"candidates": []}})[0] == KEY
    row: Any = judge(True, temperature=0.5, request=more, batch_into="p.scratch").batch_line(QUESTION, KEY)
    assert row == {"key": KEY, **line}


def answer(text: str, finish: str = "STOP") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish, "newer": [1]}
    return {"candidates": [candidate], "usageMetadata": SPENT, "newer": {"keys": "are left out"}}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"response": answer("hi")}, Reply("hi", None, Usage(7, 3))),
        ({"response": answer("hi", "MAX_TOKENS")}, Reply("hi", None, Usage(7, 3), "length")),
        ({"error": {"code": 8, "message": "later"}}, (429, "ClientError")),
        ({"error": {"code": 13, "message": "oh"}}, (500, "ServerError")),
        ({"error": {"code": 3, "message": "no"}}, (400, "ClientError")),
        ({"error": {"code": 1, "message": "cancelled"}}, None),
        ({"status": "", "response": {}}, None),
        ({"status": 'Bad Request: {"error": {"code": 400, "message": "no"}}', "response": {}}, (400, "ClientError")),
        ({"status": '{"code": 14, "message": "gone"}'}, (503, "ServerError")),
        ({"status": "words alone {"}, (500, "ServerError")),
        ({"status": "", "response": json.dumps(answer("hi"))}, Reply("hi", None, Usage(7, 3))),  # a column of text
        ({"status": 'Bad Request: {"error": {"code": 400, "message": "no"}}', "response": None}, (400, "ClientError")),
        ({"status": "", "response": ""}, None),
    ],
)
def test_what_comes_back_is_understood(told: dict[str, Any], expected: Any) -> None:
    key, found = judge(False).batch_reply({"key": KEY, **told})
    assert key == KEY
    if isinstance(found, Unanswered):
        assert (found.status, found.error_type) == expected
        assert found.message.startswith(str(found.status))
    else:
        assert found == expected


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VertexBatchServer]:
    with serving_batches(VertexBatchServer) as server:
        assert isinstance(server, VertexBatchServer)
        server.read = lambda path: Path(path).read_bytes()
        server.write = written
        yield server


def written(path: str, data: bytes) -> None:
    Path(path).parent.mkdir(parents=True)
    Path(path).write_bytes(data)


def test_a_job_of_vertex_reads_and_writes_where_the_requests_are(server: VertexBatchServer, tmp_path: Path) -> None:
    from google import genai
    from google.genai import types
    from google.oauth2.credentials import Credentials

    place: Any = {"vertexai": True, "project": "p", "location": "europe-west4", "credentials": Credentials(token="t")}
    client = VertexBatches(genai.Client(http_options=types.HttpOptions(base_url=server.url), **place), "fake-1")
    requests = Requests(str(tmp_path), json.dumps(judge(True).batch_line(QUESTION, KEY)).encode())
    Path(requests.path).write_bytes(requests.data)
    assert client.find("mine", requests, ()) is None
    job = client.submit("mine", requests)
    assert (job, client.find("mine", requests, ())) == ("projects/p/locations/europe-west4/batchPredictionJobs/1", job)
    assert not client.look(job).done
    server.work("expired")
    assert client.look(job) == (True, (), "JOB_STATE_EXPIRED: the job expired")
    (line,) = next((tmp_path / "results").rglob("predictions.jsonl")).read_text().splitlines()
    key, reply = judge(True).batch_reply(json.loads(line))
    assert (key, json.loads(getattr(reply, "text", ""))) == (KEY, {"explanation": "fine", "score": 4})
    client.close()


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexTableServer]:
    with serving_tables(monkeypatch) as server:
        yield server


def table_batches(server: VertexTableServer, **more: Any) -> VertexBatches:
    place = {"project": "p", "location": "europe-west4", "batch_into": "p.scratch", "base_url": server.url, **more}
    client = judge(True, **place).batch_client()
    assert isinstance(client, VertexBatches)
    return client


def test_a_job_of_vertex_reads_and_writes_tables(tables: VertexTableServer) -> None:
    count = 250  # more than a page of rows
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(count)]
    own = judge(True, batch_into="p.scratch")
    lines = [json.dumps(own.batch_line(QUESTION, key)).encode() for key in keys]
    requests = Requests("nowhere", b"\n".join(lines) + b"\n")
    client = table_batches(tables)
    assert client.find("mine", requests, ()) is None
    job = client.submit("mine", requests)
    assert client.find("mine", requests, ()) == job
    assert not client.look(job).done
    loaded = tables.warehouse.tables["p.scratch.evalbeam_mine"]
    assert int(loaded["resource"]["expirationTime"]) / 1000 > time.time() + 86400 * 29
    tables.work(fate=lambda number: {0: 429, 1: 0}.get(number, 200))
    done = client.look(job)
    assert (done.done, done.trouble, len(done.results), tables.warehouse.pages > 3) == (True, None, 1, True)
    told = dict(own.batch_reply(json.loads(line)) for line in done.results[0].splitlines())
    assert told.keys() == {keys[0], *keys[2:]}
    refused = told.pop(keys[0])
    assert isinstance(refused, Unanswered)
    assert refused.status == 429
    assert all(json.loads(getattr(reply, "text", "")) == {"explanation": "fine", "score": 4} for reply in told.values())
    del tables.warehouse.tables["p.scratch.evalbeam_mine_answers"]
    assert client.look(job) == (True, (), "its results are not there")
    client.close()


def test_a_repeated_start_loads_the_requests_once(tables: VertexTableServer) -> None:
    line = json.dumps(judge(True, batch_into="p.scratch").batch_line(QUESTION, KEY)).encode()
    client = table_batches(tables)
    for _ in range(2):  # the first start was killed before it asked for the job
        load_requests(client.clients, "p.scratch.evalbeam_mine", line + b"\n")
    client.submit("mine", Requests("nowhere", line))
    assert tables.requests == [[KEY]]


def test_a_job_that_vertex_does_not_run_says_why(tables: VertexTableServer) -> None:
    client, line = table_batches(tables), json.dumps(judge(True, batch_into="p.scratch").batch_line(QUESTION, KEY))
    first = client.submit("mine", Requests("nowhere", line.encode()))
    tables.work()
    again = client.submit("mine", Requests("nowhere", line.encode()))  # its table of answers exists
    refused = "JOB_STATE_FAILED: Failed to import data. Already Exists: evalbeam_mine_answers"
    assert client.look(again).trouble == refused
    assert client.look(first).trouble is None
    far = table_batches(tables, location="us-central1")
    assert "the job is in us-central1" in (far.look(far.submit("far", Requests("", line.encode()))).trouble or "")
    with pytest.raises(BadRequest, match="Missing required field: key"):
        client.submit("bare", Requests("nowhere", b'{"request": {}}'))


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"batch_into": "p.none"}, r"p\.none: .*Not found: Dataset p:none"),
        ({"location": "us-central1"}, "the model is called in us-central1, but p.scratch of batch_into lies in europe"),
    ],
)
def test_a_dataset_that_cannot_be_used_is_told_before_the_run(
    tables: VertexTableServer, more: dict[str, str], found: str
) -> None:
    place = {"project": "p", "location": "europe-west4", "batch_into": "p.scratch", **more}
    obstacle = judge(False, **place).batch_obstacle("batch", "out")
    assert obstacle is not None
    assert re.match(found, obstacle[0])
    assert obstacle[1].startswith("batch_into: the project.dataset of a dataset of BigQuery in ")
    assert judge(False, **place).batch_obstacle("batch_files", "out") is None


def test_a_region_is_compared_where_the_model_has_one(tables: VertexTableServer) -> None:
    for location in ("europe-west4", "global", None):
        own = judge(True, project="p", location=location, batch_into="p.scratch")
        assert own.batch_obstacle("batch", "out") is None


def test_tables_are_for_vertex_alone() -> None:
    with pytest.raises(
        ConfigError, match=r"batch_into: only Vertex AI reads BigQuery \(allowed: with project or vertex"
    ):
        judge(False, batch_into="p.scratch")
    with pytest.raises(ConfigError, match=r"batch_into: found 'bq://p.d.t' \(allowed: project.dataset\)"):
        judge(True, batch_into="bq://p.d.t")


def test_where_batches_go_does_not_change_what_a_judge_is() -> None:
    assert judge(True, batch_into="p.scratch").identity == judge(True).identity
