"""Agents behind HTTP addresses, over real connections on the loopback."""

import asyncio
import datetime
import ipaddress
import json
import pickle
import resource
import ssl

import orjson
import pytest
from aiohttp import web
from openai.types.chat import ChatCompletion, CompletionCreateParams
from pydantic import TypeAdapter

from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Chunk, Instance, ToolCall, Usage
from evalbeam.transforms.agents.base import InvalidAnswer, invocation_of, read_answer
from evalbeam.transforms.agents.http import HttpAgent, HttpError
from evalbeam.transforms.calls.errors import classify_error

ROW = {"prompt": "lamp on", "user_id": 7}


@pytest.fixture
def call(loop):
    """Asks an agent about a row: the invocation, or what the call raised."""

    def call(agent, row=ROW, key="key-1"):
        ask = agent.connect()
        future = asyncio.run_coroutine_threadsafe(ask(agent.request(Instance("0", row)), key), loop)
        try:
            raw = future.result(30)
        except Exception as error:
            raise error.with_traceback(None) from None  # as the engine does: its frames hold the client
        finally:
            del ask, future
        return invocation_of(Outcome(read_answer(agent.read(raw), agent.max_answer_bytes)))

    return call


@pytest.fixture
def echo(serve):
    """Address of a server that answers what it was sent; `status`, `headers` and `answer` of the query are obeyed."""

    async def handler(request):
        body = await request.read()
        sent = {"method": request.method, "path": request.raw_path, "headers": dict(request.headers)}
        sent["body"] = json.loads(body) if body else None
        return web.json_response({"response": json.dumps(sent)})

    return serve(handler)


def sent(invocation):
    return json.loads(invocation.response)


def test_the_prompt_is_posted_with_an_idempotency_key(echo, call):
    found = sent(call(HttpAgent(echo)))
    assert (found["method"], found["body"]) == ("POST", {"prompt": "lamp on"})
    assert found["headers"]["Idempotency-Key"] == "key-1"
    assert found["headers"]["Content-Type"] == "application/json"


def test_fields_of_the_row_in_address_and_body(echo, call):
    agent = HttpAgent(echo + "/users/{user_id}?q={prompt}", body={"input": {"text": "{prompt}!", "user": "{user_id}"}})
    assert agent.inputs == ("user_id", "prompt")
    found = sent(call(agent, {**ROW, "user_id": "a/b", "prompt": "on & off"}))
    assert found["path"] == "/users/a%2Fb?q=on%20%26%20off"
    assert found["body"] == {"input": {"text": "on & off!", "user": "a/b"}}
    found = sent(call(HttpAgent(echo + "/?q={prompt}", method="GET")))
    assert (found["method"], found["path"], found["body"]) == ("GET", "/?q=lamp%20on", None)


def test_secrets_are_looked_up_by_the_worker_and_shown_nowhere(echo, call, monkeypatch, tmp_path):
    (tmp_path / "key").write_text("from-a-file\n")
    headers = {"Authorization": "Bearer ${env:AGENT_TOKEN}", "X-Api-Key": f"${{file:{tmp_path / 'key'}}}"}
    agent = HttpAgent(echo, headers=headers)
    with pytest.raises(ConfigError, match=r"Authorization: the environment has no variable 'AGENT_TOKEN'"):
        agent.connect()
    monkeypatch.setenv("AGENT_TOKEN", "s3cret")
    found = sent(call(agent))["headers"]
    assert (found["Authorization"], found["X-Api-Key"]) == ("Bearer s3cret", "from-a-file")
    assert b"s3cret" not in pickle.dumps(agent)
    assert "s3cret" not in repr(agent)


def test_a_secret_that_a_server_repeats_is_hidden(serve, call, monkeypatch):
    async def handler(request):
        return web.Response(status=403, text=f"no such key: {request.headers['X-Api-Key']}")

    monkeypatch.setenv("AGENT_KEY", "s3cret")
    with pytest.raises(HttpError, match=r"^HTTP 403 Forbidden: no such key: \*\*\*$"):
        call(HttpAgent(serve(handler), headers={"X-Api-Key": "${env:AGENT_KEY}"}))


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"target": "ftp://host/"}, "agent.target: 'ftp://host/' is not a URL"),
        ({"target": "https://{prompt}/x"}, "the host has a placeholder"),
        ({"target": "https://user:password@host/"}, "the URL contains credentials"),
        ({"headers": {"authorization": "Bearer abc"}}, "agent.headers.authorization: a secret is written out"),
        ({"headers": {"X-Api-Key": "abc"}}, "agent.headers.X-Api-Key"),
        ({"headers": {"X-Api-Key": "${KEY}"}}, r"\$\{KEY\} is filled in in paths only .allowed: \$\{env:NAME"),
        ({"headers": {"X": "${vault:abc}"}}, r"agent.headers.X: found '\$\{vault:abc\}' .allowed: \$\{env:NAME"),
        ({"body": {"key": "${vault:abc}"}}, "agent.body: found '..vault:abc.'"),
        ({"answer": {"reply": "x"}}, "agent.answer: unknown key 'reply' .allowed: response, predicted_trajectory"),
        (
            {"answer": {"response": "a[?]"}},
            r"agent.answer.response: 'a\[\?\]' is no JMESPath expression: invalid token: Parse error at column 3",
        ),
    ],
)
def test_what_cannot_be_called_is_told_before_any_call(params, found):
    with pytest.raises(ConfigError, match=found):
        HttpAgent(**{"target": "https://host/", **params})


ANSWER = {
    "output": {"text": "on"},
    "steps": [{"call": {"name": "set_lamp", "args": {"on": True}}}, {"thought": "done"}],
    "documents": [{"page": {"content": "manual", "doc_uri": "doc:1"}}],
    "timing": {"seconds": 0.25},
    "meta": {"usage": {"prompt_tokens": 3, "completion_tokens": 1}},
}
PATHS = {
    "response": "output.text",
    "predicted_trajectory": "steps[*].call",
    "retrieved_context": "documents[*].page",
    "usage": "meta.usage",
    "latency_in_seconds": "timing.seconds",
}


def answering(value, **headers):
    async def handler(request):
        body = value if isinstance(value, bytes) else orjson.dumps(value)
        return web.Response(body=body, headers={"Content-Type": "application/json", **headers})

    return handler


def test_an_answer_is_read_by_its_paths(serve, call):
    found = call(HttpAgent(serve(answering(ANSWER)), answer=PATHS))
    assert found.response == "on"
    assert found.predicted_trajectory == (ToolCall("set_lamp", {"on": True}),)
    assert found.retrieved_context == (Chunk("manual", "doc:1"),)
    assert (found.usage, found.latency_in_seconds, found.extra) == (Usage(3, 1), 0.25, None)


def test_plain_text_is_the_response(serve, call):
    plain = answering(b"on", **{"Content-Type": "text/plain; charset=utf-8"})
    assert call(HttpAgent(serve(plain))).response == "on"
    page = answering(b"<html>log in</html>", **{"Content-Type": "text/html"})
    with pytest.raises(InvalidAnswer, match=r"the answer is no JSON: .*it begins with '<html>log in"):
        call(HttpAgent(serve(page)))


@pytest.mark.parametrize(
    ("value", "params", "found"),
    [
        (b"{oops", {}, "the answer is no JSON"),
        (b"", {}, "the answer is no JSON"),
        ({"error": "quota"}, {"answer": PATHS}, "the answer has no output.text; it has error"),
        ({"error": "quota"}, {"preset": "openai_chat"}, "no response of openai_chat; it has error"),
        ({"error": "quota"}, {}, "has no response; it has error"),
        ([1], {"answer": {"response": "x"}}, "has no x; it has list"),
        ({"n": 1}, {"answer": {"response": "length(n)"}}, r"length\(n\) cannot be evaluated: In function length"),
    ],
)
def test_what_is_no_answer_is_told(serve, call, value, params, found):
    with pytest.raises(InvalidAnswer, match=found):
        call(HttpAgent(serve(answering(value)), **params))


def completion(**message):
    """A chat completion as OpenAI's own client types it."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None, "message": {"role": "assistant", **message}}
    made = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return ChatCompletion.model_validate(made).model_dump()


FUNCTION = {"name": "set_lamp", "arguments": '{"on": true}'}


@pytest.mark.parametrize(
    ("message", "response", "calls"),
    [
        ({"content": "hi", "refusal": None}, "hi", ()),
        ({"content": None, "refusal": "I may not"}, "I may not", ()),
        (
            {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": FUNCTION}]},
            "",
            (ToolCall("set_lamp", {"on": True}),),
        ),
    ],
)
def test_chat_completions(serve, call, message, response, calls):
    bodies = []

    async def handler(request):
        bodies.append(await request.json())
        return web.json_response(completion(**message))

    agent = HttpAgent(serve(handler), preset="openai_chat", body={"model": "gpt-5", "temperature": 0})
    found = call(agent)
    assert (found.response, found.predicted_trajectory, found.usage) == (response, calls, Usage(9, 2))
    TypeAdapter(CompletionCreateParams).validate_python(bodies[0])
    assert bodies == [{"messages": [{"role": "user", "content": "lamp on"}], "model": "gpt-5", "temperature": 0}]


def test_messages_of_the_row_instead_of_the_presets(serve, call):
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]

    async def handler(request):
        assert (await request.json())["messages"] == messages
        return web.json_response(completion(content="ok", refusal=None))

    agent = HttpAgent(serve(handler), preset="openai_chat", body={"model": "m", "messages": "{chat}"})
    assert agent.inputs == ("chat",)
    assert call(agent, {"chat": messages}).response == "ok"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "permanent"), (401, "permanent"), (404, "permanent"), (307, "permanent"), (408, "transient")]
    + [(409, "transient"), (429, "rate_limited"), (500, "transient"), (503, "transient"), (504, "transient")],
)
def test_a_status_is_what_the_engine_takes_it_for(serve, call, status, kind):
    async def handler(request):
        return web.Response(status=status, headers={"Retry-After": "7", "Location": "/"}, text="why " * 5000)

    with pytest.raises(HttpError, match=f"^HTTP {status} ") as caught:
        call(HttpAgent(serve(handler)))
    fault = classify_error(caught.value)
    assert (fault.kind, fault.error_type) == (kind, f"HTTP{status}")
    assert fault.retry_after == (None if kind == "permanent" else 7)
    assert len(fault.message) < 400
    assert classify_error(caught.value, ("HttpError",)).kind == ("rate_limited" if status == 429 else "transient")


def test_a_redirect_is_not_followed(serve, call):
    seen = []

    async def handler(request):
        seen.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    with pytest.raises(HttpError, match="307 Temporary Redirect: leads to /elsewhere, which is not followed"):
        call(HttpAgent(serve(handler)))
    assert seen == ["/"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_large_answer_is_not_read_to_its_end(serve, call, loop, declared):
    ended = asyncio.Event()
    written = []

    async def handler(request):
        response = web.StreamResponse()
        response.content_length = 1 << 40 if declared else None
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
                written.append(65536)
        finally:
            ended.set()

    with pytest.raises(InvalidAnswer, match="larger than max_answer_bytes"):
        call(HttpAgent(serve(handler), max_answer_bytes=200_000))
    asyncio.run_coroutine_threadsafe(ended.wait(), loop).result(10)
    assert sum(written) < 20 << 20  # what fits into the buffers of both ends


def test_dropped_connections_and_what_is_no_http(call, loop):
    replies = [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", b"HELLO\r\n\r\n", b""]
    left = iter(replies)

    async def drop(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(next(left))
        await writer.drain()
        writer.close()

    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(drop, "127.0.0.1", 0), loop).result()
    agent = HttpAgent(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    kinds = []
    for _ in range(3):
        with pytest.raises(Exception) as caught:  # noqa: PT011  three types of aiohttp's
            call(agent)
        kinds.append(classify_error(caught.value).kind)
    assert kinds == ["transient"] * 3
    loop.call_soon_threadsafe(server.close)


def test_a_get_is_not_sent_again_behind_the_engines_back(serve, call, loop):
    seen = []

    async def handler(request):
        seen.append(request.path)
        if len(seen) == 2:
            request.transport.abort()
        return web.json_response({"response": "ok"})

    agent = HttpAgent(serve(handler), method="GET")
    ask = agent.connect()

    def get():
        return asyncio.run_coroutine_threadsafe(ask({}, "k"), loop).result(10)

    get()
    with pytest.raises(Exception, match=r"[Dd]isconnected|reset"):
        get()
    assert len(seen) == 2


def test_a_thousand_at_once_over_connections_that_are_kept(serve, loop):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("the system allows too few open files")
    peers, together = set(), asyncio.Barrier(1000)

    async def handler(request):
        peers.add(request.transport.get_extra_info("peername"))
        await together.wait()
        return web.json_response({"response": "ok"})

    ask = HttpAgent(serve(handler)).connect()

    async def round_():
        return await asyncio.gather(*(ask({"prompt": str(i)}, str(i)) for i in range(1000)))

    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        for _ in range(2):
            replies = asyncio.run_coroutine_threadsafe(round_(), loop).result(120)
            assert {reply.body for reply in replies} == {b'{"response": "ok"}'}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 1000 <= len(peers) < 1500


def test_a_certificate_nobody_vouches_for_is_no_passing_failure(serve, call, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    with pytest.raises(Exception, match="certificate") as caught:
        call(HttpAgent(serve(answering({"response": "ok"}), context)))
    assert classify_error(caught.value).kind == "permanent"


def certificate(folder):
    """A self-signed certificate and its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")]), datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    alone = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = made.add_extension(alone, critical=False).sign(key, hashes.SHA256())
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = folder / "test.pem"
    path.write_bytes(key.private_bytes(pem, private, serialization.NoEncryption()) + signed.public_bytes(pem))
    return path
