"""Paths into JSON values: `output.steps[0].text`, `$.documents[*].content`, `['a name']['x.y']`, `messages[-1]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_STEP = re.compile(
    r"\.?(?P<name>[^.\[\]'\"*\s$]+)|\[(?P<index>-?\d+)\]|\[(['\"])(?P<quoted>.*?)\3\]|\.?(?P<all>\[\*\]|\*)"
)


@dataclass(frozen=True)
class Path:
    """A path into a JSON value: names, `[index]` (negative counts from the end), `[*]` for all elements of a list.

    Attributes:
        text: The path as written; `$` is the whole value and may be left out.
    """

    text: str

    def __post_init__(self) -> None:
        _ = self.steps

    @cached_property
    def steps(self) -> tuple[str | int | None, ...]:
        """The parsed path: names, indices, and `None` for `[*]`.

        Raises:
            ValueError: The text is not a path.
        """
        rest, found = self.text.removeprefix("$"), []
        while rest:
            match = _STEP.match(rest)
            if match is None:
                raise ValueError(f"{self.text!r} is not a path: cannot read {rest!r}")
            named = match["name"] if match["name"] is not None else match["quoted"]
            found.append(int(match["index"]) if match["index"] else None if match["all"] else named)
            rest = rest[match.end() :]
        if not found and self.text != "$":
            raise ValueError("the path is empty")
        return tuple(found)

    def find(self, value: Any) -> Any:
        """Returns the value at the path, or `None`; with `[*]`, the list of the values that exist."""
        for i, step in enumerate(self.steps):
            if step is None:
                return _each(value, self.steps[i + 1 :])
            value = _one(value, step)
        return value


def _each(value: Any, steps: tuple[str | int | None, ...]) -> list[Any] | None:
    if not isinstance(value, list):
        return None
    found = []
    for element in value:
        for i, step in enumerate(steps):
            if step is None:
                found += _each(element, steps[i + 1 :]) or []
                break
            element = _one(element, step)
        else:
            if element is not None:
                found.append(element)
    return found


def _one(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, Mapping) else None
    return value[step] if isinstance(value, list) and -len(value) <= step < len(value) else None
