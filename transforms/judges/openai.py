"""Judges behind OpenAI's chat completions: OpenAI, vLLM, Ollama, Databricks serving and many others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Consult, ModelJudge, Question, Reply, Usage, closing, register

_FINISH = {"length": "length", "content_filter": "refused"}


@register("judge", "openai")
@dataclass(frozen=True, kw_only=True)
class OpenAIJudge(ModelJudge):
    """A model of OpenAI, or of any server that speaks its protocol (`base_url`).

    Servers without structured output are asked with `structured: false`.
    """

    extra: ClassVar[str] = "openai"
    module: ClassVar[str] = "openai"

    def connect(self) -> Consult:
        from openai import AsyncOpenAI

        key = self.key() or ("none" if self.base_url else None)  # servers of one's own often want no key
        client = AsyncOpenAI(api_key=key, base_url=self.base_url, max_retries=0, timeout=None)

        async def consult(question: Question) -> Reply:
            answer = await client.chat.completions.create(**self._request(question))
            if not answer.choices:
                return Reply(usage=_usage(answer))
            choice = answer.choices[0]
            text, refusal = choice.message.content or "", getattr(choice.message, "refusal", None)
            if refusal:
                return Reply(refusal, usage=_usage(answer), finish="refused")
            return Reply(text, usage=_usage(answer), finish=_FINISH.get(choice.finish_reason or "", "stop"))

        return closing(consult, client.close)

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


def _usage(answer: Any) -> Usage | None:
    found = answer.usage
    return None if found is None else Usage(found.prompt_tokens, found.completion_tokens)
