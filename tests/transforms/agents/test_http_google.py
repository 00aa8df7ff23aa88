"""Vertex AI Agent Engines: the address by resource name, and Google's credentials over google-auth's real flow."""

import asyncio
import json

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from evalbeam.schemas.calls import Outcome
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Instance, ToolCall
from evalbeam.transforms.agents.base import invocation_of, read_answer
from evalbeam.transforms.agents.http import HttpAgent

NAME = "projects/p-1/locations/europe-west1/reasoningEngines/42"


@pytest.fixture
def credentials(serve, tmp_path, monkeypatch):
    """A service account whose tokens come from a local server; the requests that were made for tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    asked = []

    async def token(request):
        asked.append(jwt.decode((await request.post())["assertion"], verify=False))
        return web.json_response({"access_token": f"token-{len(asked)}", "expires_in": 3600, "token_type": "Bearer"})

    account = {
        "type": "service_account",
        "project_id": "p-1",
        "private_key_id": "1",
        "private_key": key.private_bytes(*form).decode(),
        "client_email": "agent@p-1.iam.gserviceaccount.com",
        "token_uri": serve(token),
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    return asked


def test_a_resource_name_is_the_address_of_its_query_method():
    agent = HttpAgent(NAME)
    assert agent._address == f"https://europe-west1-aiplatform.googleapis.com/v1/{NAME}:query"
    assert (agent.inputs, agent._google) == (("prompt",), True)


STEP = [{"kwargs": {"tool": "set_lamp", "tool_input": {"on": True}}}, "ok"]
MESSAGES = [
    {"type": "human", "content": "lamp on"},
    {"lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": {"type": "ai", "content": "", "tool_calls": [
        {"name": "set_lamp", "args": {"on": True}, "id": "1", "type": "tool_call"}]}},
    {"type": "tool", "content": "ok"},
    {"type": "ai", "content": [{"type": "text", "text": "do"}, "ne"]},
]  # fmt: skip
OUTPUTS = ["done", {"input": "lamp on", "output": "done", "intermediate_steps": [STEP]}, {"messages": MESSAGES}]


@pytest.mark.parametrize("output", OUTPUTS, ids=["text", "executor", "graph"])
def test_an_agent_engine(serve, loop, credentials, output):
    seen = []

    async def query(request):
        seen.append((request.path, request.headers["Authorization"], await request.json()))
        return web.json_response({"output": output})

    address = f"{serve(query)}/v1/{NAME}:query"
    agent = HttpAgent(address, preset="agent_engine")
    ask = agent.connect()

    async def several():
        return await asyncio.gather(*(ask(agent.request(Instance("0", {"prompt": "lamp on"})), "k") for _ in range(20)))

    raws = asyncio.run_coroutine_threadsafe(several(), loop).result(30)
    found = [invocation_of(Outcome(read_answer(agent.read(raw), 1 << 20))) for raw in raws]
    assert {invocation.response for invocation in found} == {"done"}
    calls = None if output == "done" else (ToolCall("set_lamp", {"on": True}),)
    assert all(invocation.predicted_trajectory == calls for invocation in found)
    body = {"class_method": "query", "input": {"input": "lamp on"}}
    assert seen == [(f"/v1/{NAME}:query", "Bearer token-1", body)] * 20
    assert [a["scope"] for a in credentials] == ["https://www.googleapis.com/auth/cloud-platform"]


def test_no_credentials(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="agent: no Google credentials"):
        HttpAgent(NAME).connect()
