"""The judge type `function`: a Python function."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.formats.rapid import read_result
from ...schemas.json import Json
from ..registry import is_async, load_object, parameters_of
from ..runtime.local_objects import original
from .base import Consult, Judge, Question, Reply, register


@register("judge", "function")
@dataclass(frozen=True)
class FunctionJudge(Judge):
    """Calls a Python function with the messages and the JSON schema of the answer.

    The function gets a list of {role, content} and the schema. It returns the answer: an object that matches the
    schema, a text that contains one, a response of evaluateInstances with one result, or a `Reply`. If it has a
    parameter `vote`, it gets the number of the vote. It may be a coroutine function; other functions run on threads.

    Attributes:
        target: The function, or `"module:name"` of it.
        version: Version of the function; answers of another version, or of a changed source file, are not reused.
        model: Name for looking up its price.
    """

    target: Any
    version: str | None = None
    model: str = ""

    def __post_init__(self) -> None:
        if not callable(self._function()):
            raise ConfigError(f"found {type(self.target).__name__}", where="target", allowed="a function")

    def connect(self) -> Consult:
        function = self._function()
        with_vote = "vote" in parameters_of(function)

        def given(question: Question) -> tuple[Any, ...]:
            return [m._asdict() for m in question.messages], dict(question.schema)

        def consult(question: Question) -> Any:
            return _to_reply(function(*given(question), **({"vote": question.vote} if with_vote else {})))

        async def consult_async(question: Question) -> Reply:
            extra = {"vote": question.vote} if with_vote else {}
            return _to_reply(await function(*given(question), **extra))

        return consult_async if is_async(function) else consult

    @property
    def identity(self) -> Mapping[str, Json]:
        function = self._function()
        name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        return {"judge": "function", "target": name, "version": self.version, "source": _hash_source(function)}

    def _function(self) -> Any:
        return load_object(self.target, "judges") if isinstance(self.target, str) else original(self.target)


def _to_reply(found: Any) -> Reply:
    if isinstance(found, Reply):
        return found
    return Reply(text=found) if isinstance(found, str) else Reply(value=read_result(found))


def _hash_source(function: Any) -> str | None:
    """Returns the sha256 of the function's source file, or `None` if there is none."""
    module = inspect.getmodule(function)
    file = getattr(module, "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else None
