"""A fake model behind real HTTP on the loopback: it speaks the protocols of Gemini, OpenAI and Anthropic.

What it says is decided by a function of what it was asked; how it is said is the provider's wire format.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request, understood."""

    protocol: str
    model: str
    system: str
    user: str
    schema: dict[str, Any] | None
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True)
class Said:
    """An answer: a text, refused or cut off, or an HTTP error."""

    text: str = ""
    refused: bool = False
    cut: bool = False
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    tokens: tuple[int, int] | None = (100, 20)


def verdict(**value: Any) -> Said:
    """A structured answer."""
    return Said(json.dumps(value))


class ModelServer:
    """A server; `said` may be replaced by a test, `asked` holds what came in."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.said: Callable[[Asked], Said] = lambda asked: verdict(explanation="fine", score=4)
        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Said, Any]:
        """(what is said, the response's JSON) for a request."""
        protocol = "openai" if "chat/completions" in path else "anthropic" if path.endswith("/messages") else "gemini"
        asked = globals()[f"_read_{protocol}"](path, body, headers)
        with self._lock:
            self.asked.append(asked)
        said = self.said(asked)
        if said.status != 200:
            return said, _error(protocol, said.status)
        return said, globals()[f"_write_{protocol}"](said)


@contextmanager
def serving() -> Iterator[ModelServer]:
    """A server that runs until the block ends."""
    model = ModelServer()
    thread = threading.Thread(target=model.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        model.server.shutdown()
        model.server.server_close()
        thread.join()


def _handler(model: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said, answer = model.answer(self.path, body, {k.lower(): v for k, v in self.headers.items()})
            data = json.dumps(answer).encode()
            self.send_response(said.status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": len(data),
                **said.headers,
            }.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    return Handler


def _read_openai(path: str, body: dict[str, Any], headers: dict[str, str]) -> Asked:
    by_role = {m["role"]: m["content"] for m in body["messages"]}
    shape = body.get("response_format", {}).get("json_schema", {}).get("schema")
    return Asked("openai", body["model"], by_role.get("system", ""), by_role["user"], shape, body, headers)


def _write_openai(said: Said) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    if said.refused:
        message |= {"content": None, "refusal": "I cannot judge this."}
    finish = "length" if said.cut else "stop"
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
    }
    if said.tokens:
        given, made = said.tokens
        answer["usage"] = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    return answer


def _read_anthropic(path: str, body: dict[str, Any], headers: dict[str, str]) -> Asked:
    shape = body.get("output_config", {}).get("format", {}).get("schema")
    return Asked(
        "anthropic", body["model"], body.get("system", ""), body["messages"][-1]["content"], shape, body, headers
    )


def _write_anthropic(said: Said) -> Any:
    given, made = said.tokens or (0, 0)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [] if said.refused else [{"type": "text", "text": said.text}],
        "stop_reason": "refusal" if said.refused else "max_tokens" if said.cut else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": given, "output_tokens": made},
    }


def _read_gemini(path: str, body: dict[str, Any], headers: dict[str, str]) -> Asked:
    def text(content: Any) -> str:
        return "".join(part["text"] for part in content["parts"])

    shape = body.get("generationConfig", {}).get("responseJsonSchema")
    model = path.partition("models/")[2].partition(":")[0]
    system = text(body["systemInstruction"]) if "systemInstruction" in body else ""
    return Asked("gemini", model, system, text(body["contents"][-1]), shape, body, headers)


def _write_gemini(said: Said) -> Any:
    if said.refused:
        return {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": _gemini_usage(said)}
    parts = [{"text": "thinking ...", "thought": True}, {"text": said.text}]
    finish = "MAX_TOKENS" if said.cut else "STOP"
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": finish, "index": 0}
    return {"candidates": [candidate], "usageMetadata": _gemini_usage(said), "modelVersion": "fake"}


def _gemini_usage(said: Said) -> Any:
    given, made = said.tokens or (0, 0)
    counts = {"promptTokenCount": given, "candidatesTokenCount": made - 5, "thoughtsTokenCount": 5}
    return counts if said.tokens else {}


ANTHROPIC_ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error",
    529: "overloaded_error",
}  # fmt: skip


def anthropic_error(status: int) -> Any:
    """What an error says of itself, live and in batches."""
    return {"type": "error", "error": {"type": ANTHROPIC_ERRORS.get(status, "api_error"), "message": "no"}}


def _error(protocol: str, status: int) -> Any:
    words = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 400: "INVALID_ARGUMENT"}.get(status, "UNKNOWN")
    if protocol == "gemini":
        return {"error": {"code": status, "message": words.lower(), "status": words}}
    if protocol == "anthropic":
        return anthropic_error(status)
    return {"error": {"message": words, "type": "requests", "param": None, "code": None}}
