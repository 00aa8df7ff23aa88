"""Lines of Anthropic's message batches against what its client sends and raises live, and its jobs over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from anthropic_batch_server import AnthropicBatchServer
from batch_server import serving_batches
from model_server import ANTHROPIC_ERRORS, Said, anthropic_error

from evalbeam.schemas.judging import Message, Reply
from evalbeam.transforms.batch_api.anthropic import read_line
from evalbeam.transforms.batch_api.base import Requests, Unanswered
from evalbeam.transforms.batch_api.outbox import MOST_BYTES, MOST_REQUESTS
from evalbeam.transforms.judges.anthropic import AnthropicJudge
from evalbeam.transforms.judges.base import Question


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicBatchServer]:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    with serving_batches(AnthropicBatchServer) as server:
        assert isinstance(server, AnthropicBatchServer)
        yield server


def judge(server: AnthropicBatchServer, **more: Any) -> AnthropicJudge:
    return AnthropicJudge(model="fake-1", api_key="${env:JUDGE_KEY}", base_url=server.url, **more)


def question(word: str) -> Question:
    key = hashlib.sha256(word.encode()).hexdigest()
    return Question((Message("system", "the system's"), Message("user", word)), {"type": "object"}, key)


def live(server: AnthropicBatchServer, **more: Any) -> Reply:
    consult: Any = judge(server, **more).connect()

    async def once() -> Reply:
        try:
            return await consult(question("a"))
        finally:
            await consult.close()

    return asyncio.run(once())


def requests(server: AnthropicBatchServer, *words: str) -> Requests:
    lines = [judge(server).batch_line(q, q.key) for q in map(question, words)]
    return Requests("folder", "\n".join(map(json.dumps, lines)).encode())


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"structured": False, "max_tokens": 7},
        {"temperature": 0.5, "request": {"thinking": {"type": "enabled", "budget_tokens": 1024}}},
        {"temperature": 0.5, "request": {"extra_body": {"top_k": 3}}},
    ],
)
def test_a_line_holds_what_a_live_call_sends(server: AnthropicBatchServer, more: dict[str, Any]) -> None:
    live(server, **more)
    asked = question("a")
    assert judge(server, **more).batch_line(asked, asked.key) == {
        "custom_id": asked.key,
        "params": server.model.asked[0].body,
    }


@pytest.mark.parametrize("said", [Said('{"a": 1}'), Said('{"a":', cut=True), Said(refused=True)])
def test_a_message_that_came_back_is_read_as_a_live_one(server: AnthropicBatchServer, said: Said) -> None:
    server.model.said = lambda asked: said
    expected = live(server)
    client = judge(server).batch_client()
    job = client.submit("mine", requests(server, "a"))
    server.work()
    (line,) = client.look(job).results[0].splitlines()
    assert judge(server).batch_reply(json.loads(line)) == (question("a").key, expected)
    client.close()


@pytest.mark.parametrize("status", [*ANTHROPIC_ERRORS, 500])
def test_an_error_that_came_back_is_the_one_that_a_live_call_raises(server: AnthropicBatchServer, status: int) -> None:
    server.model.said = lambda asked: Said(status=status)
    with pytest.raises(Exception, match=f"Error code: {status}") as caught:
        live(server)
    line = {"custom_id": "k", "result": {"type": "errored", "error": anthropic_error(status)}}
    assert read_line(line) == ("k", Unanswered(status, type(caught.value).__name__, str(caught.value)))


def test_an_error_of_a_new_type_is_worth_another_try() -> None:
    body = {"type": "error", "error": {"type": "newer_error", "message": "no"}}
    key, found = read_line({"custom_id": "k", "result": {"type": "errored", "error": body}})
    assert isinstance(found, Unanswered)
    assert (key, found.status) == ("k", 500)
    with pytest.raises(KeyError):
        read_line({"custom_id": "k", "result": {"type": "newer"}})


def test_requests_that_expired_or_were_canceled_are_open_again(server: AnthropicBatchServer) -> None:
    client = judge(server).batch_client()
    job = client.submit("mine", requests(server, *"abcd"))
    assert client.look(job) == (False, (), None)
    server.work(fate=[0, 1, 200, 0].__getitem__)
    done, (data,), trouble = client.look(job)
    assert (done, trouble) == (True, "1 canceled, 2 expired")
    found = dict(judge(server).batch_reply(json.loads(line)) for line in data.splitlines())
    assert [word for word in "abcd" if found[question(word).key] is None] == ["a", "b", "d"]
    server.jobs[job]["results_url"] = None
    assert client.look(job) == (True, (), "its results are no longer kept")
    client.close()


def test_a_batch_is_found_again_by_its_results(server: AnthropicBatchServer) -> None:
    client = judge(server).batch_client()
    asked = requests(server, "a", "b")
    assert client.find("mine", asked, ()) is None
    mine, other, larger = (client.submit("", requests(server, *words)) for words in ("ab", "cd", "efg"))
    server.work()
    last = client.submit("", requests(server, "x", "y", "z"))
    assert client.find("mine", asked, ()) == mine
    assert client.find("mine", requests(server, "c", "d"), ()) == other
    assert client.find("mine", requests(server, "p", "q"), ()) is None
    assert client.find("mine", asked, (mine,)) is None  # another batch with the same requests is known
    assert client.find("mine", requests(server, *"efg"), (last,)) == larger
    assert client.find("mine", requests(server, *"pqr"), ()) == last  # nobody can tell while it is worked on
    server.jobs[mine]["results_url"] = None
    assert client.find("mine", asked, ()) is None
    client.close()


def test_a_batch_that_could_not_be_started_is_not_tried_twice(
    server: AnthropicBatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import anthropic

    tried = []

    def broken(path: str, body: bytes, headers: Any) -> Any:
        tried.append(path)
        raise ConnectionError

    monkeypatch.setattr(server, "post", broken)
    client = judge(server).batch_client()
    with pytest.raises(anthropic.APIConnectionError):
        client.submit("mine", requests(server, "a"))
    assert len(tried) == 1
    client.close()


def test_a_full_batch_is_within_the_limits(server: AnthropicBatchServer) -> None:
    client, size = judge(server).batch_client(), 2_000
    lines = [orjson.dumps({"custom_id": f"k{i}", "params": {"text": "я😀" * 100}}) for i in range(size)]
    data = b"\n".join(lines)
    client.submit("", Requests("folder", data))
    client.close()
    assert server.sizes == [(size, len(data) + len('{"requests":[]}'))]  # what is sent is as large as the file
    assert MOST_REQUESTS <= 100_000
    assert MOST_BYTES + len('{"requests":[]}') <= 256_000_000
