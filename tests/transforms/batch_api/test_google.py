"""Lines of google-genai's batches against what its client sends and reads, and Vertex AI's jobs over HTTP."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_server import serving_batches
from gemini_batch_server import VertexBatchServer

from evalbeam.schemas.judging import Message, Usage
from evalbeam.transforms.batch_api.base import Requests, Unanswered
from evalbeam.transforms.batch_api.google import VertexBatches, read_line
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
