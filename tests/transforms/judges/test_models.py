"""Judges behind their providers' own clients, over real HTTP, against a server that speaks the providers' formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from model_server import ModelServer, Said, serving

from evalbeam.schemas.calls import Call
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.judging import Message
from evalbeam.transforms import registry
from evalbeam.transforms.calls.errors import ClassifiedError, classify_error
from evalbeam.transforms.judge import JudgeCaller, JudgeUse
from evalbeam.transforms.judges.base import Question
from evalbeam.transforms.metrics._judged import make_rating

SHAPE = make_rating(1, 2, 3, 4, 5)
TYPES = {"google": "gemini", "openai": "openai", "anthropic": "anthropic"}
PATHS = {"openai": "/v1"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving() as model:
        yield model


@pytest.fixture(params=TYPES)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    return request.param


def judge(kind: str, server: ModelServer, **params: Any) -> Any:
    given = {"model": "fake-1", "api_key": "${env:JUDGE_KEY}", "base_url": server.url + PATHS.get(kind, ""), **params}
    return registry.build(registry.find("judge", kind), given, "judges.default")


def consulted(kind: str, server: ModelServer, user: str = "the user's", **params: Any) -> Any:
    """What is kept of one answer; raises what the engine would see."""
    call: Any = JudgeCaller((), {"default": JudgeUse(judge(kind, server, **params), CallPolicy())}).connect(
        "judge:default"
    )
    messages = (Message("system", "the system's"), Message("user", user))
    request = {"messages": messages, "schema": SHAPE, "vote": 0, "data": (user,)}

    async def once() -> Any:
        try:
            return await call(Call("00", request))
        finally:
            await call.close()

    return asyncio.run(once())


def test_a_structured_answer_and_its_tokens(kind: str, server: ModelServer) -> None:
    found = consulted(kind, server, temperature=0.5, max_tokens=300)
    assert found == {
        "value": {"explanation": "fine", "score": 4},
        "usage": {"input_tokens": 100, "output_tokens": 20},
    }
    (asked,) = server.asked
    assert (asked.protocol, asked.model, asked.system, asked.user) == (
        TYPES[kind], "fake-1", "the system's", "the user's"
    )  # fmt: skip
    assert asked.schema == SHAPE
    assert "k-123" in " ".join(asked.headers.values())
    assert all(word in json.dumps(asked.body) for word in ("0.5", "300"))


def test_a_model_without_structured_output_is_read_strictly(kind: str, server: ModelServer) -> None:
    server.said = lambda asked: Said('I think so.\n```json\n{"explanation": "good", "score": 5}\n```\nBye.')
    assert consulted(kind, server, structured=False)["value"] == {"explanation": "good", "score": 5}
    assert server.asked[0].schema is None


def test_a_refusal_is_no_verdict(kind: str, server: ModelServer) -> None:
    server.said = lambda asked: Said(refused=True)
    assert failed(kind, server) == ("Refused", "permanent")
    assert len(server.asked) == 1


def test_an_answer_that_was_cut_off_is_no_verdict(kind: str, server: ModelServer) -> None:
    server.said = lambda asked: Said('{"explanation": "it is', cut=True)
    assert failed(kind, server) == ("Truncated", "permanent")


@pytest.mark.parametrize("text", ["", "4 is my", '{"explanation": "x", "score": 9}', '{"score": 4', "[]"])
def test_anything_else_is_no_verdict(kind: str, server: ModelServer, text: str) -> None:
    server.said = lambda asked: Said(text)
    assert failed(kind, server) == ("InvalidVerdict", "permanent")


@pytest.mark.parametrize(
    ("status", "expected"), [(429, "rate_limited"), (500, "transient"), (503, "transient"), (400, "permanent")]
)
def test_errors_reach_the_engine_after_one_try(kind: str, server: ModelServer, status: int, expected: str) -> None:
    server.said = lambda asked: Said(status=status, headers={"Retry-After": "7"})
    fault = fault_in(kind, server)
    assert (fault.kind, len(server.asked)) == (expected, 1)
    assert fault.retry_after == (None if status == 400 else 7.0)


def test_a_server_that_counts_no_tokens(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k")
    server.said = lambda asked: Said('{"explanation": "", "score": 1}', tokens=None)
    assert consulted("openai", server)["usage"] is None
    assert consulted("google", server)["usage"] is None


def test_a_key_that_is_written_out_is_refused(kind: str, server: ModelServer) -> None:
    with pytest.raises(ConfigError, match="a secret is written out") as caught:
        judge(kind, server, api_key="sk-live")
    assert "sk-live" not in str(caught.value)


def test_further_headers_hold_secrets_by_reference(
    kind: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    monkeypatch.setenv("GATEWAY", "g-456")
    headers = {"X-Gateway-Token": "Bearer ${env:GATEWAY}", "X-Team": "a"}
    consulted(kind, server, request={"extra_headers": headers})
    sent = server.asked[0].headers
    assert (sent["x-gateway-token"], sent["x-team"]) == ("Bearer g-456", "a")
    assert "g-456" not in repr(judge(kind, server, request={"extra_headers": headers}).identity)
    with pytest.raises(
        ConfigError, match=r"request\.extra_headers\.X-Gateway-Token: a secret is written out"
    ) as caught:
        judge(kind, server, request={"extra_headers": {"X-Gateway-Token": "Bearer g-456"}})
    assert "g-456" not in str(caught.value)


def test_headers_of_google_stand_where_those_of_others_do(server: ModelServer) -> None:
    with pytest.raises(ConfigError, match=r"request\.http_options: found headers \(allowed: request\.extra_headers\)"):
        judge("google", server, request={"http_options": {"headers": {"X-Gateway-Token": "Bearer g-456"}}})


def test_a_line_of_a_batch_holds_what_a_live_call_of_openai_sends(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "k-123")
    more = {"request": {"seed": 7, "extra_body": {"top_k": 3}}, "max_tokens": 9}
    consulted("openai", server, **more)
    asked = Question((Message("system", "the system's"), Message("user", "the user's")), SHAPE)
    assert judge("openai", server, **more).batch_line(asked, "k")["body"] == server.asked[0].body


def test_answers_do_not_depend_on_where_the_model_is(kind: str, server: ModelServer) -> None:
    one, other = judge(kind, server), judge(kind, server, base_url=None, api_key=None)
    assert one.identity == other.identity
    assert one.identity != judge(kind, server, temperature=1.0).identity
    assert "JUDGE_KEY" not in str(one.identity)


def fault_in(kind: str, server: ModelServer) -> ClassifiedError:
    try:
        consulted(kind, server)
    except Exception as error:
        return classify_error(error)
    raise AssertionError("no error")


def failed(kind: str, server: ModelServer) -> tuple[str, str]:
    fault = fault_in(kind, server)
    return fault.error_type, fault.kind
