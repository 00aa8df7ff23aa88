"""The judge type `anthropic`: Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..batch_api.anthropic import AnthropicBatches, read_line, request_line
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

_FINISH = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refused"}
_MAX_TOKENS = 4096
_LONG = 3600.0


@register("judge", "anthropic")
@dataclass(frozen=True, kw_only=True)
class AnthropicJudge(BatchedModelJudge):
    """Calls a model of Anthropic; `max_tokens` is 4096 by default."""

    extra: ClassVar[str] = "anthropic"
    module: ClassVar[str] = "anthropic"

    def connect(self) -> Consult:
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(api_key=self.key(), base_url=self.base_url, max_retries=0, timeout=_LONG)
        headers = self.headers()

        async def consult(question: Question) -> Reply:
            return _to_reply(await client.messages.create(**{**self._request(question), "extra_headers": headers}))

        return attach_close(consult, client.close)

    def batch_line(self, asked: Question, key: str) -> Any:
        return request_line(key, merge_extra_body(self._request(asked)))

    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Reply | Unanswered | None]:
        from anthropic.types import Message

        key, found = read_line(line)
        return key, _to_reply(Message.construct(**found)) if isinstance(found, Mapping) else found

    def batch_client(self) -> AnthropicBatches:
        from anthropic import Anthropic

        return AnthropicBatches(Anthropic(api_key=self.key(), base_url=self.base_url))

    def _request(self, question: Question) -> dict[str, Any]:
        shape = {"type": "json_schema", "schema": dict(question.schema)}
        return self.build_request(
            model=self.model,
            system=question.system or None,
            messages=[m._asdict() for m in question.turns],
            max_tokens=self.max_tokens or _MAX_TOKENS,
            output_config={"format": shape} if self.structured and question.structured else None,
            extra_body={} if self.temperature is None else {"temperature": self.temperature},
        )


def _to_reply(answer: Any) -> Reply:
    text = "".join(block.text for block in answer.content if block.type == "text")
    usage = Usage(_input(answer.usage), answer.usage.output_tokens)
    return Reply(text, usage=usage, finish=_FINISH.get(answer.stop_reason or "", "stop"))


def _input(usage: Any) -> int:
    """Counts input tokens, including those written to or read from the provider's cache."""
    cached = (getattr(usage, f"cache_{what}_input_tokens", None) or 0 for what in ("creation", "read"))
    return usage.input_tokens + sum(cached)
