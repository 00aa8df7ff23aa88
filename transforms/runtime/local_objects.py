"""Objects given from Python that stay in their process, since clients with sockets and locks cannot be pickled."""

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
    """A picklable reference to an object of this process."""

    def __init__(self, token: str) -> None:
        self.token = token


def original(value: Any) -> Any:
    """Returns the object of a `LocalObject`, and anything else as it is.

    Raises:
        RunError: The object is in another process, or its run is over.
    """
    if not isinstance(value, LocalObject):
        return value
    if value.token not in _held:
        raise RunError('an object given from Python cannot reach another process (allowed: "module:name")')
    return _held[value.token]


@contextmanager
def holding() -> Iterator[Any]:
    """Yields a function that copies a part with references in place of the user's functions and objects.

    The objects are held until the context ends.
    """
    before = set(_held)
    try:
        yield _copy_with_references
    finally:
        for token in set(_held) - before:
            del _held[token]


def _copy_with_references(part: Any) -> Any:
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
