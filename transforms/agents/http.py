"""An agent behind an HTTP address."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import jmespath
import orjson
from jmespath.exceptions import JMESPathError

from ...schemas.config.explain import show_value
from ...schemas.errors import AgentError, ConfigError, RowError
from ...schemas.instance import Instance
from ...schemas.json import Json
from ...schemas.values import parse_json
from ..batch_api.base import Batched, Unanswered
from ..batch_api.openai import COMPLETIONS, OpenAIBatches, read_line, request_line
from ..io.google_auth import GoogleToken
from ..io.http_client import HttpClient, Reply
from ..io.secrets import Secrets, check_text
from ..registry import has_module
from .base import ANSWER, ENGINE, Agent, Ask, InvalidAnswer, is_address, register
from .forms import chat, langchain, templates

_SHOWN = 300


class HttpError(AgentError):
    """The server returned an error status; each status has its own subclass, for example `HTTP503`.

    Args:
        message: The status and the beginning of the body.
        status: HTTP status.
        headers: Headers of the response; names are in lower case.
    """

    def __init__(self, message: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers)


class _Preset(NamedTuple):
    body: dict[str, Json]
    read: Callable[[Any], Any]
    google: bool = False


def _engine_output(value: Any) -> Any:
    return langchain.answer_of(value.get("output")) if isinstance(value, Mapping) else value


_PRESETS = {
    "openai_chat": _Preset({"messages": [{"role": "user", "content": "{prompt}"}]}, chat.answer_of),
    "agent_engine": _Preset({"class_method": "query", "input": {"input": "{prompt}"}}, _engine_output, google=True),
}


@register("agent", "http")
@dataclass(frozen=True)
class HttpAgent(Agent, Batched):
    """Calls an HTTP endpoint for each row and reads the answer from the JSON response.

    `{name}` in the path and query of the target and in strings of the body is replaced by a field of the row
    (`{prompt}`, `{user_id}` ...); every row must have these fields. A string that is exactly `{name}` becomes the
    field's value with its own type. Secrets are references: `${env:NAME}`, `${file:PATH}` or `${secret:projects/...}`.
    They are resolved on the worker that makes the call and hidden in error messages. Each request carries an
    `Idempotency-Key`, the same for every attempt of a row. Redirects are errors. Reading stops after
    `max_answer_bytes`, and the answer is then an error.

    Attributes:
        target: URL (http or https), or the resource name of a Vertex AI Agent Engine
            (projects/*/locations/*/reasoningEngines/*), which is called at `:query`.
        preset: Protocol of the server. "openai_chat": chat completions of OpenAI and compatible servers, including
            tool calls. "agent_engine": an Agent Engine, with Google's credentials (the default for a resource name).
        method: HTTP method; GET sends no body.
        headers: Request headers; secrets only by reference.
        body: JSON body with placeholders for fields; default: `{"prompt": "{prompt}"}`. With a preset, keys that are
            added to the preset's body or replace its keys.
        answer: JMESPath expressions (jmespath.org) of response, predicted_trajectory, retrieved_context, usage and
            latency_in_seconds in the JSON response, such as `output.text`, `steps[*].call` or `choices[0].message`.
            The preset supplies what has no expression. Without preset and expressions, the response has these keys
            itself or is plain text.
        auth: "google" sends an access token of Google's Application Default Credentials.
        max_answer_bytes: Maximum size of an answer, in bytes, as in the call policy.
    """

    target: str
    preset: Literal["openai_chat", "agent_engine"] | None = None
    method: Literal["POST", "PUT", "PATCH", "GET"] = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    body: Json = None
    answer: dict[str, str] = field(default_factory=dict)
    auth: Literal["none", "google"] = "none"
    max_answer_bytes: int = 4 << 20

    @classmethod
    def claims(cls, target: Any) -> bool:
        return is_address(target)

    @property
    def model_name(self) -> str | None:
        model = self.body.get("model") if self.preset == "openai_chat" and isinstance(self.body, Mapping) else None
        return model if isinstance(model, str) else None

    def __post_init__(self) -> None:
        self._check_target()
        for name, value in self.headers.items():
            check_text(value, f"agent.headers.{name}", name)
        for text in templates.iter_texts(self.body):
            check_text(text, "agent.body")
        if self._preset is not None and not isinstance(self.body, Mapping | None):
            found = f"found {show_value(self.body)}"
            raise ConfigError(found, where="agent.body", allowed="keys that extend or replace those of the preset")
        for name, path in self.answer.items():
            if name not in ANSWER:
                raise ConfigError(f"unknown key {name!r}", where="agent.answer", allowed=", ".join(ANSWER))
            try:
                jmespath.compile(path)
            except JMESPathError as error:
                found, allowed = f"{path!r} is no JMESPath expression: {_shown(error)}", "such as output.text"
                raise ConfigError(found, where=f"agent.answer.{name}", allowed=allowed) from None

    def _check_target(self) -> None:
        where, address = "agent.target", urlsplit(self._address)
        check_text(self.target, where)
        if address.scheme not in ("http", "https") or not address.hostname:
            allowed = "http://..., https://... or projects/*/locations/*/reasoningEngines/*"
            raise ConfigError(f"{self.target!r} is not a URL", where=where, allowed=allowed)
        if templates.find_names(f"{address.scheme}://{address.netloc}"):
            raise ConfigError("the host has a placeholder", where=where, allowed="{name} in path and query")
        if address.username is not None or address.password is not None:
            allowed = "headers: {Authorization: 'Basic ${env:CREDENTIALS}'}"
            raise ConfigError("the URL contains credentials", where=where, allowed=allowed)

    @property
    def inputs(self) -> tuple[str, ...]:
        return templates.find_names(self._address, self._body)

    def request(self, instance: Instance) -> Json:
        return {name: instance.get(name) for name in self.inputs}

    def connect(self) -> Ask:
        client, secrets = HttpClient(), Secrets()
        address = secrets.fill(self._address, "agent.target")
        headers = {k: secrets.fill(v, f"agent.headers.{k}") for k, v in self.headers.items()}
        headers = {"User-Agent": "evalbeam", "Accept": "application/json", **headers}
        body = _resolve_secrets(self._body, secrets)
        if body is not None:
            headers["Content-Type"] = "application/json"
        token = GoogleToken() if self._google else None

        async def ask(given: Json, key: str) -> Any:
            sent = {**headers, "Idempotency-Key": key}
            if token is not None:
                sent["Authorization"] = f"Bearer {await token.get()}"
            url = templates.fill_address(address, given)
            data = None if body is None else orjson.dumps(templates.fill(body, given))
            return _check_reply(await client.send(self.method, url, sent, data, self.max_answer_bytes), secrets)

        return ask

    def batch_obstacle(self, mode: str, output: str) -> tuple[str, str] | None:
        if self.preset != "openai_chat" or self.method != "POST":
            return "only chat completions can run in batches", "live; or preset: openai_chat"
        if any("${" in text for text in templates.iter_texts(self.body)):
            return "agent.body holds a secret, which would be written to files", "secrets in agent.headers; or live"
        if mode == "batch_files":
            return None
        if not self.target.endswith(COMPLETIONS) or self._google or templates.find_names(self.target):
            return f"{self.target} has no OpenAI Batch API", f"https://...{COMPLETIONS}; or batch_files"
        return None if has_module("openai") else ("the package 'openai' is missing", "pip install 'evalbeam[openai]'")

    def batch_line(self, asked: Json, key: str) -> Json:
        return request_line(key, templates.fill(self._body, asked))  # type: ignore[arg-type]

    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Reply | Unanswered | None]:
        key, found = read_line(line)
        if found is None:
            return key, None
        status, body = found
        try:
            return key, _check_reply(Reply(status, {}, json.dumps(body).encode()), Secrets())
        except HttpError as error:
            return key, Unanswered(status, type(error).__name__, str(error))

    def batch_client(self) -> OpenAIBatches:
        from openai import OpenAI

        secrets = Secrets()
        headers = {k.title(): secrets.fill(v, f"agent.headers.{k}") for k, v in self.headers.items()}
        address = secrets.fill(self.target, "agent.target").removesuffix(COMPLETIONS)
        return OpenAIBatches(OpenAI(api_key="none", base_url=address, default_headers=headers))

    def read(self, raw: Reply) -> Any:
        if not self.answer and self.preset is None and raw.headers.get("content-type", "").startswith("text/plain"):
            return raw.body.decode("utf-8", "replace")
        try:
            value = parse_json(raw.body)
        except RowError as error:
            found, shown = error.message.partition(" (allowed")[0], raw.body[:_SHOWN].decode("utf-8", "replace")
            raise InvalidAnswer(f"the answer is no JSON: {found}; it begins with {shown!r}") from None
        preset = self._preset
        found = value if preset is None else preset.read(value)
        if not self.answer:
            return found if found or preset is None else _raise_missing(value, f"response of {self._speaks}")
        found = {**found} if preset is not None and isinstance(found, Mapping) else {}
        for name, path in self.answer.items():
            if (there := _search(path, value)) is not None:
                found[name] = there
        if "response" not in found and "predicted_trajectory" not in found:
            return _raise_missing(
                value, self.answer.get("response") or self.answer.get("predicted_trajectory") or "response"
            )
        return found

    @property
    def _speaks(self) -> str | None:
        return "agent_engine" if self.preset is None and ENGINE.fullmatch(self.target) else self.preset

    @property
    def _preset(self) -> _Preset | None:
        return _PRESETS.get(self._speaks or "")

    @property
    def _google(self) -> bool:
        return self.auth == "google" or (self._preset is not None and self._preset.google)

    @property
    def _address(self) -> str:
        match = ENGINE.fullmatch(self.target)
        return f"https://{match[1]}-aiplatform.googleapis.com/v1/{self.target}:query" if match else self.target

    @property
    def _body(self) -> Json:
        if self.method == "GET":
            return self.body
        if self._preset is None:
            return {"prompt": "{prompt}"} if self.body is None else self.body
        return {**self._preset.body, **(self.body or {})}


def _search(expression: str, value: Any) -> Any:
    try:
        return jmespath.search(expression, value)  # compiled expressions are kept by the library
    except JMESPathError as error:
        raise InvalidAnswer(f"{expression} cannot be evaluated: {_shown(error)}") from None


def _shown(error: JMESPathError) -> str:
    """Returns the message in one line, without the expression and the mark below it."""
    return str(error).partition(", for expression")[0]


def _resolve_secrets(template: Json, secrets: Secrets) -> Json:
    if isinstance(template, str):
        return secrets.fill(template, "agent.body")
    if isinstance(template, Mapping):
        return {key: _resolve_secrets(value, secrets) for key, value in template.items()}
    return [_resolve_secrets(value, secrets) for value in template] if isinstance(template, list) else template


def _check_reply(reply: Reply, secrets: Secrets) -> Reply:
    status = reply.status
    if status < 300:
        if reply.whole:
            return reply
        raise InvalidAnswer("the answer is larger than max_answer_bytes; the rest was not read")
    text = secrets.hide(" ".join(reply.body.decode("utf-8", "replace").split()))[:_SHOWN]
    if 300 <= status < 400:
        text = f"leads to {reply.headers.get('location', 'another address')}, which is not followed"
    raise _make_error_type(status)(f"HTTP {status}{_phrase(status)}{': ' if text else ''}{text}", status, reply.headers)


@cache
def _make_error_type(status: int) -> type[HttpError]:
    return type(f"HTTP{status}", (HttpError,), {"__doc__": f"HTTP {status}{_phrase(status)}."})


def _phrase(status: int) -> str:
    return f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""


def _raise_missing(value: Any, wanted: str) -> Any:
    keys = ", ".join(sorted(map(str, value))[:10]) if isinstance(value, Mapping) else type(value).__name__
    raise InvalidAnswer(f"the answer has no {wanted}; it has {keys or 'no keys'}")
