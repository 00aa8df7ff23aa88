"""The judge type `google`: Gemini models, by the Gemini API or Vertex AI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.errors import ConfigError
from ..batch_api.google import GeminiBatches, VertexBatches, read_line, request_line, wire
from ..batch_api.tables import find_dataset_obstacle
from ..io.bigquery import Clients, check_dataset
from ..io.google_genai import make_client
from .base import (
    BatchedModelJudge,
    Consult,
    Question,
    Reply,
    Unanswered,
    Usage,
    attach_close,
    register,
)

_BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")


@register("judge", "google")
@dataclass(frozen=True, kw_only=True)
class GoogleJudge(BatchedModelJudge):
    """Calls a Gemini model through the Gemini API, or through Vertex AI if `project` or `vertex` is set.

    Without `api_key` the client reads GOOGLE_API_KEY or GEMINI_API_KEY; Vertex AI uses the worker's own credentials.

    Attributes:
        project: Google Cloud project; selects Vertex AI.
        location: Location of the model, such as "europe-west4" or "global".
        vertex: True to use Vertex AI.
        batch_into: "project.dataset" of BigQuery, in the region of the model, whose tables hand over batches of Vertex
            AI; default: files on `gs://`.
    """

    project: str | None = None
    location: str | None = None
    vertex: bool = False
    batch_into: str | None = None

    secret: ClassVar[tuple[str, ...]] = (*BatchedModelJudge.secret, "batch_into")
    extra: ClassVar[str] = "google"
    module: ClassVar[str] = "google.genai"

    def __post_init__(self) -> None:
        super().__post_init__()
        if "headers" in (self.request.get("http_options") or ()):
            raise ConfigError("found headers", where="request.http_options", allowed="request.extra_headers")
        if self.batch_into is not None:
            check_dataset(self.batch_into, "batch_into")
            if not self._vertex:
                raise ConfigError("only Vertex AI reads BigQuery", where="batch_into", allowed="with project or vertex")

    def connect(self) -> Consult:
        import httpx

        pool = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
        client = self._client(httpx_async_client=pool, headers=self.headers())

        async def consult(question: Question) -> Reply:
            return _to_reply(await client.aio.models.generate_content(**self._request(question)))

        return attach_close(consult, pool.aclose)

    def batch_obstacle(self, mode: str, output: str) -> tuple[str, str] | None:
        obstacle = super().batch_obstacle(mode, output)
        if mode != "batch" or not self._vertex or obstacle is not None:
            return obstacle
        if self.batch_into is not None:
            return find_dataset_obstacle(Clients(), self.batch_into, self.location)
        if output.startswith("gs://"):
            return None
        found = f"Vertex AI reads batches only from Cloud Storage or BigQuery, but output.path is {output}"
        return found, "output.path: gs://...; batch_into: project.dataset; or batch_files"

    def batch_line(self, asked: Question, key: str) -> Any:
        line = request_line(key, wire(self._vertex).request(**self._request(asked)), self._vertex)
        return line if self.batch_into is None else {"key": key, **line}

    def batch_reply(self, line: Mapping[str, Any]) -> tuple[str, Reply | Unanswered | None]:
        from google.genai.errors import APIError

        key, found = read_line(line)
        if found is None:
            return key, None
        try:
            return key, _to_reply(wire(self._vertex).response(*found))
        except APIError as error:
            return key, Unanswered(error.code, type(error).__name__, str(error))

    def batch_client(self) -> GeminiBatches | VertexBatches:
        if self._vertex:
            return VertexBatches(self._client(), self.model, self.batch_into)
        return GeminiBatches(self._client(), self.model)

    @property
    def _vertex(self) -> bool:
        return self.vertex or self.project is not None

    def _request(self, question: Question) -> dict[str, Any]:
        from google.genai import types

        contents = [
            types.Content(role="model" if m.role == "assistant" else "user", parts=[types.Part(text=m.content)])
            for m in question.turns
        ]
        config = types.GenerateContentConfig(**self._config(question))
        return {"model": self.model, "contents": contents, "config": config}

    def _client(self, **http: Any) -> Any:
        place = {"project": self.project, "location": self.location, "vertex": self.vertex}
        return make_client(**place, api_key=self.key(), base_url=self.base_url, **http)

    def _config(self, question: Question) -> dict[str, Any]:
        structured = self.structured and question.structured
        config = self.build_request(
            system_instruction=question.system or None,
            temperature=self.temperature,
            max_output_tokens=self.max_tokens,
            response_mime_type="application/json" if structured else None,
            response_json_schema=dict(question.schema) if structured else None,
        )
        return {key: value for key, value in config.items() if key != "extra_headers"}  # the client's own


def _to_reply(answer: Any) -> Reply:
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
