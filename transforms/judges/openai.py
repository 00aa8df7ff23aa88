"""The judge type `openai`: chat completions of OpenAI, vLLM, Ollama, Databricks model serving and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..batch_api.openai import OpenAIBatches, read_line, request_line
from .base import (
    BatchedModelJudge,
    Consult,
    Question,
    Reply,
    Unanswered,
    Usage,
    attach_close,
    merge_extra_body,
    register,
)

_FINISH = {"length": "length", "content_filter": "refused"}
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
class OpenAIJudge(BatchedModelJudge):
    """Calls a model of OpenAI, or of any server with the same protocol (`base_url`).

    Servers without structured output need `structured: false`.
    """

    extra: ClassVar[str] = "openai"
    module: ClassVar[str] = "openai"

    def connect(self) -> Consult:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(**self._access(), max_retries=0, timeout=None)
        headers = self.headers()

        async def consult(question: Question) -> Reply:
            return _to_reply(
                await client.chat.completions.create(**{**self._request(question), "extra_headers": headers})
            )

        return attach_close(consult, client.close)

    def batch_line(self, asked: Question, key: str) -> Any:
        return request_line(key, merge_extra_body(self._request(asked)))

    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Reply | Unanswered | None]:
        from openai.types.chat import ChatCompletion

        key, found = read_line(line)
        if found is None:
            return key, None
        status, body = found
        if status >= 400:
            name = _ERRORS.get(status, "InternalServerError" if status >= 500 else "APIStatusError")
            return key, Unanswered(status, name, _error_text(status, body))
        return key, _to_reply(ChatCompletion.construct(**body))

    def batch_client(self) -> OpenAIBatches:
        from openai import OpenAI

        return OpenAIBatches(OpenAI(**self._access()))

    def _access(self) -> dict[str, Any]:
        key = self.key() or ("none" if self.base_url else None)  # the client needs a key, self-hosted servers do not
        return {"api_key": key, "base_url": self.base_url}

    def _request(self, question: Question) -> dict[str, Any]:
        shape = {"name": "verdict", "strict": True, "schema": dict(question.schema)}
        structured = self.structured and question.structured
        return self.build_request(
            model=self.model,
            messages=[m._asdict() for m in question.messages],
            temperature=self.temperature,
            max_completion_tokens=self.max_tokens if self.base_url is None else None,
            max_tokens=self.max_tokens if self.base_url is not None else None,  # other servers know only this name
            response_format={"type": "json_schema", "json_schema": shape} if structured else None,
        )


def _error_text(status: int, body: Any) -> str:
    """Formats an error as the client does."""
    error = body.get("error", body) if isinstance(body, Mapping) else None
    message = error.get("message") if isinstance(error, Mapping) else None
    return f"Error code: {status} - {message}" if message else f"Error code: {status}"


def _to_reply(answer: Any) -> Reply:
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
