"""What a judge is: a model behind one protocol, messages and the shape of an answer in, answer and usage out.

A judge is a frozen dataclass whose fields are the parameters a config may set, registered under a name:

    @register("judge", "strict")
    @dataclass(frozen=True)
    class Strict(Judge):
        '''Finds fault with everything.'''

        def connect(self) -> Consult:
            async def consult(question: Question) -> Reply:
                return Reply(value={"explanation": "No.", "score": 1})

            return consult

Its own retries must be off: timeouts, retries and pace are the engine's. What it raises is understood by names and HTTP
statuses, as with agents.
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
    "Batched",
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
    "closing",
    "file_obstacle",
    "in_file",
    "register",
]


class Refused(JudgeError):
    """A judge, or its provider's filter, refused to answer; it is not asked again."""


class Truncated(JudgeError):
    """A judge ran into its limit of tokens before it gave a verdict; it is not asked again."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a judge is given.

    Attributes:
        messages: At most one system message, the first.
        schema: JSON schema of the answer; an object.
        key: Idempotency key, the same in every attempt.
        vote: Number of the vote, for judges that draw from it.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Json]
    key: str = ""
    vote: int = 0

    @property
    def system(self) -> str:
        """Text of the system message, "" where there is none."""
        return self.messages[0].content if self.messages and self.messages[0].role == "system" else ""

    @property
    def turns(self) -> tuple[Message, ...]:
        """The messages after the system message."""
        return tuple(m for m in self.messages if m.role != "system")


Consult: TypeAlias = Callable[[Question], Awaitable[Reply] | Reply]
"""A coroutine function, or a function that may block and runs on a thread."""


class Judge(ABC):
    """Base of all judges.

    Attributes:
        secret: Names of fields that hold secrets or only say where the model is: its answers do not depend on them.
        speaks: The only kind of question it answers, see `JudgedMetric.speaks`; `None` takes any.
    """

    secret: ClassVar[tuple[str, ...]] = ("api_key", "base_url")
    speaks: ClassVar[str | None] = None

    @abstractmethod
    def connect(self) -> Consult:
        """Makes the client, once in each worker process; may raise, which ends the run."""

    @property
    def model_name(self) -> str:
        """Name under which its price is looked up."""
        return str(getattr(self, "model", "") or type(self).__name__)

    @property
    def identity(self) -> Mapping[str, Json]:
        """All that its answers depend on beside the question."""
        given: dict[str, Any] = {}
        if dataclasses.is_dataclass(self):
            given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in self.secret}
        return {"judge": f"{type(self).__module__}.{type(self).__qualname__}".partition(".")[2], **given}


@dataclass(frozen=True, kw_only=True)
class ModelJudge(Judge):
    """Base of judges that are models behind an interface of their provider.

    Attributes:
        model: Name of the model, as its provider writes it.
        api_key: Where the key is: `${env:NAME}` or `${secret:projects/P/secrets/S/versions/V}`; by default where the
            provider's own client looks for it. A key itself is refused.
        base_url: Address of another server that speaks the same protocol.
        temperature: Of sampling; default: the model's own. Panels of one judge need one above 0.
        max_tokens: Tokens of an answer at most, the model's thinking included; default: the model's own.
        structured: Whether the model is made to answer in the asked shape; without, its words are read strictly.
        request: Further keys of the provider's request, passed on as they are; secrets in its `extra_headers` are
            references like `api_key`.
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
    """The extra of this package that brings the provider's client."""
    module: ClassVar[str]
    """The client's module."""

    def __post_init__(self) -> None:
        check_reference(self.api_key, "api_key")
        for name, value in self._extra_headers.items():
            check_text(str(value), f"request.extra_headers.{name}", name)
        require_module(self.module, self.extra, "a judge of this type", "judges")

    def key(self) -> str | None:
        """The key itself; only where it is used."""
        return resolved(self.api_key, "judges: api_key")

    @property
    def _extra_headers(self) -> Mapping[str, Any]:
        return self.request.get("extra_headers") or {}

    def headers(self) -> dict[str, str]:
        """The request's `extra_headers` with the secrets themselves; only where they are sent."""
        secrets, given = Secrets(), self._extra_headers.items()
        return {name: secrets.fill(str(value), f"judges: request.extra_headers.{name}") for name, value in given}

    def given(self, **named: Any) -> dict[str, Any]:
        """The keys of a request that have a value, and those of `request`."""
        return {**{k: v for k, v in named.items() if v is not None}, **self.request}


def file_obstacle(request: Mapping[str, Any]) -> tuple[str, str] | None:
    """(What is in the way of `request` in a file, what is allowed): keys that the client makes no part of the body."""
    found = [key for key in ("extra_headers", "extra_query", "http_options", "timeout") if key in request]
    return (f"request holds {found[0]}, which batches have none of", "live; or without it") if found else None


def in_file(request: Mapping[str, Any]) -> dict[str, Any]:
    """The body that the client makes of a live call's keys."""
    more = request.get("extra_body") or {}
    return {**{k: v for k, v in request.items() if k != "extra_body"}, **more}


def closing(consult: Any, close: Callable[[], Awaitable[None]]) -> Consult:
    """The callable, with what the engine awaits once nobody needs it any more: connections do not outlive a run."""
    consult.close = close
    return consult
