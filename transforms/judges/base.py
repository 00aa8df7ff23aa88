"""The base classes of judges: from messages and the schema of an answer to the answer and its usage.

A judge is a frozen dataclass whose fields are the parameters a config may set, registered under a name:

    @register("judge", "strict")
    @dataclass(frozen=True)
    class Strict(Judge):
        '''Finds fault with everything.'''

        def connect(self) -> Consult:
            async def consult(question: Question) -> Reply:
                return Reply(value={"explanation": "No.", "score": 1})

            return consult

A judge's client must not retry: timeouts, retries and rate limits belong to the engine. Exceptions are classified by
their type name and HTTP status, as those of agents are.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from ...schemas.errors import JudgeError
from ...schemas.instance import Usage
from ...schemas.json import Json
from ...schemas.judging import PROMPTS, Message, Reply
from ..batch_api.base import Batched, Unanswered
from ..io.secrets import Secrets, check_reference, check_text, resolved
from ..registry import register, require_module

__all__ = [
    "BatchedModelJudge",
    "Consult",
    "Judge",
    "Message",
    "ModelJudge",
    "Question",
    "Refused",
    "Reply",
    "Truncated",
    "Unanswered",
    "Usage",
    "attach_close",
    "merge_extra_body",
    "register",
]


class Refused(JudgeError):
    """A judge or its provider's filter refused to answer; the call is not retried."""


class Truncated(JudgeError):
    """A judge reached its token limit before it gave a verdict; the call is not retried."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a judge.

    Attributes:
        messages: The messages; only the first one may be a system message.
        schema: JSON schema of the answer, an object.
        key: Idempotency key, the same in every attempt.
        vote: Number of the vote, for judges that depend on it.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Json]
    key: str = ""
    vote: int = 0

    @property
    def system(self) -> str:
        """Text of the system message, or ""."""
        return self.messages[0].content if self.messages and self.messages[0].role == "system" else ""

    @property
    def structured(self) -> bool:
        """True if the answer is an object, false if it is a free text."""
        return self.schema["type"] == "object"

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages after the system message."""
        return tuple(m for m in self.messages if m.role != "system")


Consult: TypeAlias = Callable[[Question], Awaitable[Reply] | Reply]
"""A coroutine function, or a function that may block and runs on a thread."""


class Judge(ABC):
    """Base of all judges.

    Attributes:
        secret: Names of fields that do not affect its answers, such as secrets and URLs; left out of its identity.
        speaks: The only kind of question it answers, see `JudgedMetric.speaks`; `None` for any.
    """

    secret: ClassVar[tuple[str, ...]] = ("api_key", "base_url")
    speaks: ClassVar[str | None] = None

    @abstractmethod
    def connect(self) -> Consult:
        """Creates the client, once per worker process; an exception here fails every question."""

    @property
    def model_name(self) -> str:
        """Name for looking up its price."""
        return str(getattr(self, "model", "") or type(self).__name__)

    @property
    def identity(self) -> Mapping[str, Json]:
        """All that its answers depend on besides the question."""
        given: dict[str, Any] = {}
        if dataclasses.is_dataclass(self):
            given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in self.secret}
        return {"judge": f"{type(self).__module__}.{type(self).__qualname__}".partition(".")[2], **given}


@dataclass(frozen=True, kw_only=True)
class ModelJudge(Judge):
    """Base of judges that call a model through its provider's API.

    Attributes:
        model: The provider's name of the model.
        api_key: Reference to the key: `${env:NAME}` or `${secret:projects/P/secrets/S/versions/V}`; default: where the
            provider's client looks for it. A literal key is an error.
        base_url: URL of another server with the same protocol.
        temperature: Sampling temperature; default: the model's own. Panels of one judge need a value above 0.
        max_tokens: Maximum tokens of an answer, including the model's thinking; default: the model's own.
        structured: True to request structured output in the schema of the answer; otherwise the verdict is parsed
            strictly from the text.
        request: Further keys of the provider's request, passed unchanged; secrets in its `extra_headers` are references
            like `api_key`.
    """

    model: str
    api_key: str | None = None
    base_url: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    structured: bool = True
    request: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    speaks: ClassVar[str | None] = PROMPTS
    extra: ClassVar[str]
    """The extra of evalbeam that installs the provider's client."""
    module: ClassVar[str]
    """The module of the provider's client."""

    def __post_init__(self) -> None:
        check_reference(self.api_key, "api_key")
        for name, value in self._extra_headers.items():
            check_text(str(value), f"request.extra_headers.{name}", name)
        require_module(self.module, self.extra, "a judge of this type", "judges")

    def key(self) -> str | None:
        """Resolves the key; called only on the worker that uses it."""
        return resolved(self.api_key, "judges: api_key")

    @property
    def _extra_headers(self) -> Mapping[str, Any]:
        return self.request.get("extra_headers") or {}

    def headers(self) -> dict[str, str]:
        """Resolves the secrets in `extra_headers` of the request; called only on the worker that sends them."""
        secrets, given = Secrets(), self._extra_headers.items()
        return {name: secrets.fill(str(value), f"judges: request.extra_headers.{name}") for name, value in given}

    def build_request(self, **named: Any) -> dict[str, Any]:
        """Builds a request from the keys that have a value and from `request`, which takes precedence."""
        return {**{k: v for k, v in named.items() if v is not None}, **self.request}


@dataclass(frozen=True, kw_only=True)
class BatchedModelJudge(ModelJudge, Batched):
    """Base of judges whose provider has a batch API."""

    def batch_obstacle(self, mode: str, output: str) -> tuple[str, str] | None:
        unsupported = ("extra_headers", "extra_query", "http_options", "timeout")  # they are not part of the body
        found = next((key for key in unsupported if key in self.request), None)
        return (f"request has {found}, which batches do not support", "live; or without it") if found else None


def merge_extra_body(request: Mapping[str, Any]) -> dict[str, Any]:
    """Merges `extra_body` into the request, as the provider's client does in a live call."""
    more = request.get("extra_body") or {}
    return {**{k: v for k, v in request.items() if k != "extra_body"}, **more}


def attach_close(consult: Any, close: Callable[[], Awaitable[None]]) -> Consult:
    """Attaches a coroutine function that the engine awaits at the end, so that connections do not outlive a run."""
    consult.close = close
    return consult
