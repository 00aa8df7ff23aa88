"""Objects given from Python that stay in their process: clients with sockets and locks do not pickle, and need not."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from ...schemas.errors import RunError

_held: dict[str, Any] = {}


class LocalObject:
    """Stands for an object of this process, however often it is pickled."""

    def __init__(self, token: str) -> None:
        self.token = token


def original(value: Any) -> Any:
    """The object that a `LocalObject` stands for; anything else is itself.

    Raises:
        RunError: The object is held by another process, or its run is over.
    """
    if not isinstance(value, LocalObject):
        return value
    if value.token not in _held:
        raise RunError('an object given from Python cannot reach another process (allowed: "module:name")')
    return _held[value.token]


@contextmanager
def holding() -> Iterator[Any]:
    """Gives a function that makes the copy of a part whose functions and other objects of the user's are held."""
    before = set(_held)
    try:
        yield _held_copy
    finally:
        for token in set(_held) - before:
            del _held[token]


def _held_copy(part: Any) -> Any:
    if not is_dataclass(part):
        return part
    given = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    objects = {n: v for n, v in given.items() if (callable(v) or n == "target") and not isinstance(v, str | None)}
    clone = copy.copy(part) if objects else part
    for name, value in objects.items():
        token = uuid.uuid4().hex
        _held[token] = value
        object.__setattr__(clone, name, LocalObject(token))
    return clone
