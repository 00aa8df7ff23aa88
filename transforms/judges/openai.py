"""Judges behind OpenAI's chat completions: OpenAI, vLLM, Ollama, Databricks serving and many others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import (
    BatchJudge,
    Consult,
    Job,
    ModelJudge,
    Question,
    Reply,
    Unanswered,
    Usage,
    closing,
    register,
)

_FINISH = {"length": "length", "content_filter": "refused"}
_ENDPOINT = "/v1/chat/completions"
_ENDED = ("completed", "failed", "expired", "cancelled")
_OPEN = ("batch_expired", "batch_cancelled")
_ERRORS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}


@register("judge", "openai")
@dataclass(frozen=True, kw_only=True)
class OpenAIJudge(ModelJudge, BatchJudge):
    """A model of OpenAI, or of any server that speaks its protocol (`base_url`).

    Servers without structured output are asked with `structured: false`.
    """

    extra: ClassVar[str] = "openai"
    module: ClassVar[str] = "openai"

    def connect(self) -> Consult:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(**self._access(), max_retries=0, timeout=None)

        async def consult(question: Question) -> Reply:
            return _reply(await client.chat.completions.create(**self._request(question)))

        return closing(consult, client.close)

    def batch_line(self, question: Question) -> Any:
        return {"custom_id": question.key, "method": "POST", "url": _ENDPOINT, "body": self._request(question)}

    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Reply | Unanswered | None]:
        from openai.types.chat import ChatCompletion

        key, response, error = line["custom_id"], line.get("response"), line.get("error")
        if response is None:
            code = (error or {}).get("code")
            return key, None if code in _OPEN else Unanswered(500, "InternalServerError", f"batch error {code}")
        status, body = response["status_code"], response["body"]
        if status >= 400:
            name = _ERRORS.get(status, "InternalServerError" if status >= 500 else "APIStatusError")
            return key, Unanswered(status, name, _error_text(status, body))
        return key, _reply(ChatCompletion.construct(**body))

    def batch_client(self) -> _OpenAIBatches:
        from openai import OpenAI

        return _OpenAIBatches(OpenAI(**self._access()))

    def _access(self) -> dict[str, Any]:
        key = self.key() or ("none" if self.base_url else None)  # servers of one's own often want no key
        return {"api_key": key, "base_url": self.base_url}

    def _request(self, question: Question) -> dict[str, Any]:
        shape = {"name": "verdict", "strict": True, "schema": dict(question.schema)}
        return self.given(
            model=self.model,
            messages=[m._asdict() for m in question.messages],
            temperature=self.temperature,
            max_completion_tokens=self.max_tokens if self.base_url is None else None,
            max_tokens=self.max_tokens if self.base_url is not None else None,  # what other servers know
            response_format={"type": "json_schema", "json_schema": shape} if self.structured else None,
        )


@dataclass(frozen=True)
class _OpenAIBatches:
    """OpenAI's files and batches."""

    client: Any

    def submit(self, name: str, requests: bytes) -> str:
        file = self.client.files.create(file=("requests.jsonl", requests), purpose="batch")
        named = {"completion_window": "24h", "metadata": {"evalbeam": name}}
        return self.client.batches.create(input_file_id=file.id, endpoint=_ENDPOINT, **named).id

    def find(self, name: str) -> str | None:
        return next((b.id for b in self.client.batches.list() if (b.metadata or {}).get("evalbeam") == name), None)

    def look(self, job: str) -> Job:
        batch = self.client.batches.retrieve(job)
        if batch.status not in _ENDED:
            return Job(False)
        files = [id_ for id_ in (batch.output_file_id, batch.error_file_id) if id_]
        reasons = [e.message for e in (batch.errors and batch.errors.data) or () if e.message]
        trouble = None if batch.status == "completed" else "; ".join([batch.status, *reasons])
        return Job(True, tuple(self.client.files.content(id_).read() for id_ in files), trouble)

    def close(self) -> None:
        self.client.close()


def _error_text(status: int, body: Any) -> str:
    """What the client says of an error."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else None
    return f"Error code: {status} - {message}" if message else f"Error code: {status}"


def _reply(answer: Any) -> Reply:
    if not answer.choices:
        return Reply(usage=_usage(answer))
    choice = answer.choices[0]
    text, refusal = choice.message.content or "", getattr(choice.message, "refusal", None)
    if refusal:
        return Reply(refusal, usage=_usage(answer), finish="refused")
    return Reply(text, usage=_usage(answer), finish=_FINISH.get(choice.finish_reason or "", "stop"))


def _usage(answer: Any) -> Usage | None:
    found = answer.usage
    return None if found is None else Usage(found.prompt_tokens, found.completion_tokens)
