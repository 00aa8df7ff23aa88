"""Judges behind google-genai: the Gemini API, and Vertex AI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Consult, ModelJudge, Question, Reply, Usage, closing, register

_BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")


@register("judge", "google")
@dataclass(frozen=True, kw_only=True)
class GoogleJudge(ModelJudge):
    """A Gemini model, by the Gemini API or, where `project` or `vertex` is given, by Vertex AI.

    Without `api_key` the client looks for GOOGLE_API_KEY or GEMINI_API_KEY; Vertex AI takes the worker's own
    credentials.

    Attributes:
        project: Google Cloud project; the call goes to Vertex AI then.
        location: Its location, such as "europe-west4" or "global".
        vertex: Whether the call goes to Vertex AI.
    """

    project: str | None = None
    location: str | None = None
    vertex: bool = False

    extra: ClassVar[str] = "google"
    module: ClassVar[str] = "google.genai"

    def connect(self) -> Consult:
        import httpx
        from google import genai
        from google.genai import types

        wire = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
        http = types.HttpOptions(base_url=self.base_url, httpx_async_client=wire)
        client = genai.Client(api_key=self.key(), http_options=http, **self._place())

        async def consult(question: Question) -> Reply:
            contents: Any = [
                types.Content(role="model" if m.role == "assistant" else "user", parts=[types.Part(text=m.content)])
                for m in question.turns
            ]
            config = types.GenerateContentConfig(**self._config(question))
            answer = await client.aio.models.generate_content(model=self.model, contents=contents, config=config)
            return _reply(answer)

        return closing(consult, wire.aclose)

    def _place(self) -> dict[str, Any]:
        if not (self.vertex or self.project):
            return {}
        named = {"project": self.project, "location": self.location}
        return {"vertexai": True, **{k: v for k, v in named.items() if v is not None}}

    def _config(self, question: Question) -> dict[str, Any]:
        return self.given(
            system_instruction=question.system or None,
            temperature=self.temperature,
            max_output_tokens=self.max_tokens,
            response_mime_type="application/json" if self.structured else None,
            response_json_schema=dict(question.schema) if self.structured else None,
        )


def _reply(answer: Any) -> Reply:
    usage = _usage(answer.usage_metadata)
    candidate = answer.candidates[0] if answer.candidates else None
    if candidate is None:
        feedback = answer.prompt_feedback
        reason = getattr(feedback and feedback.block_reason, "name", None)
        return Reply(f"the prompt was blocked ({reason})" if reason else "", usage=usage, finish="refused")
    finish = getattr(candidate.finish_reason, "name", "STOP")
    parts = (candidate.content and candidate.content.parts) or ()
    text = "".join(part.text for part in parts if part.text and not part.thought)
    if finish in _BLOCKED:
        return Reply(f"the answer was blocked ({finish})", usage=usage, finish="refused")
    return Reply(text, usage=usage, finish="length" if finish == "MAX_TOKENS" else "stop")


def _usage(found: Any) -> Usage | None:
    if found is None or found.prompt_token_count is None:
        return None
    made = (found.candidates_token_count, getattr(found, "thoughts_token_count", None))
    return Usage(found.prompt_token_count, sum(n for n in made if n is not None))
