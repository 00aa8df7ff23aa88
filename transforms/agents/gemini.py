"""The agent type `gemini`: a Gemini model by its name, or an object with `generate_content`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...schemas.errors import AgentError, ConfigError
from ...schemas.json import Json
from ..io.google_genai import MODEL, make_client
from ..io.secrets import check_reference, resolved
from ..registry import require_module
from ..runtime.local_objects import original
from .base import Agent, Ask, register

_NAME = re.compile(r"gemini-[\w.-]+$")


@register("agent", "gemini")
@dataclass(frozen=True)
class GeminiAgent(Agent):
    """Asks a Gemini model, without tools; the response is its text.

    A name is called through google-genai: by the Gemini API, or by Vertex AI if `project` or `vertex` is given or the
    name is a resource's. An object, such as a `GenerativeModel` of the Vertex AI SDK, is called with the prompt.

    Attributes:
        target: Name of the model ("gemini-2.5-flash"), its resource name, or an object with `generate_content`.
        project: Google Cloud project; selects Vertex AI.
        location: Location of the model, such as "europe-west4" or "global".
        vertex: True to use Vertex AI.
        api_key: Reference to the key of the Gemini API; default: GOOGLE_API_KEY or GEMINI_API_KEY.
        base_url: URL of another server with the same protocol.
        config: Keys of google-genai's `GenerateContentConfig`: temperature, max_output_tokens, system_instruction ...
    """

    target: Any
    project: str | None = None
    location: str | None = None
    vertex: bool = False
    api_key: str | None = None
    base_url: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def claims(cls, target: Any) -> bool:
        if isinstance(target, str):
            return bool(_NAME.match(target) or MODEL.match(target))
        return callable(getattr(original(target), "generate_content", None)) and not isinstance(target, type)

    @property
    def model_name(self) -> str | None:
        return self.target.rpartition("/")[2] if isinstance(self.target, str) else None

    def __post_init__(self) -> None:
        check_reference(self.api_key, "agent.api_key")
        if not self.claims(self.target):
            found = repr(self.target) if isinstance(self.target, str) else type(self.target).__name__
            allowed = "a model such as gemini-2.5-flash, or an object with generate_content"
            raise ConfigError(f"found {found}", where="agent.target", allowed=allowed)
        if isinstance(self.target, str):
            require_module("google.genai", "google", "an agent of type gemini", "agent.type")

    def connect(self) -> Ask:
        if isinstance(self.target, str):
            return self._connect_model(self.target)
        generate = original(self.target).generate_content

        def ask(given: Json, key: str) -> Any:
            return _answer_of(generate(given))

        return ask

    def _connect_model(self, name: str) -> Ask:
        import httpx
        from google.genai import types

        match = MODEL.match(name)
        project, location, model = match.groups() if match else (None, None, name)
        pool = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
        client = make_client(
            project=self.project or project,
            location=self.location or location,
            vertex=self.vertex,
            api_key=resolved(self.api_key, "agent.api_key"),
            base_url=self.base_url,
            httpx_async_client=pool,
        )
        config = types.GenerateContentConfig(**self.config)

        async def ask(given: Json, key: str) -> Any:
            return _answer_of(await client.aio.models.generate_content(model=model, contents=given, config=config))

        ask.close = pool.aclose  # type: ignore[attr-defined]  (the engine closes what a client holds)
        return ask


def _answer_of(answer: Any) -> dict[str, Json]:
    """Converts an answer of google-genai, or of an SDK with the same names.

    Raises:
        AgentError: The answer has no text, for example because it was blocked.
    """
    text = answer.text  # the Vertex AI SDK raises a ValueError with the reason if there is none
    if not text:
        blocked = getattr(getattr(answer, "prompt_feedback", None), "block_reason", None)
        finished = [getattr(c.finish_reason, "name", None) for c in getattr(answer, "candidates", None) or ()]
        raise AgentError(f"the model gave no text ({blocked or ', '.join(map(str, finished)) or 'no candidate'})")
    used = getattr(answer, "usage_metadata", None)
    given, made = (getattr(used, f"{name}_token_count", None) for name in ("prompt", "candidates"))
    thought = getattr(used, "thoughts_token_count", None) or 0
    if not (isinstance(given, int) and isinstance(made, int)):
        return {"response": text}
    return {"response": text, "usage": {"input_tokens": given, "output_tokens": made + thought}}
