"""What is left of a configuration without the keys that are refused, so that the rest of it can be checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..errors import Mistakes, near_names
from .explain import list_keys_at

_REQUIRED: Mapping[str, Any] = {"dataset": {"path": "none"}, "metrics": ["failure"]}
"""Stands for what is required and refused; nobody looks at it."""


def drop_refused(data: Mapping[str, Any], error: ValidationError, model: Any, found: Mistakes) -> dict[str, Any]:
    """Returns a copy of a configuration without what is refused: a key of mappings, else its whole section.

    Args:
        data: The configuration.
        error: The error of pydantic.
        model: The model of the configuration.
        found: Is told which keys are not what they seem: those that are dropped, and those that unknown ones may mean.
    """
    left = dict(data)
    for one in error.errors(include_url=False):
        steps = [str(step) for step in one["loc"]]
        found.doubtful.add(".".join(_drop(left, steps)))
        if one["type"] == "extra_forbidden":
            near = near_names(steps[-1], list_keys_at(model, steps[:-1]))
            found.doubtful.update(".".join((*steps[:-1], name)) for name in near)
    source = left.get("dataset")
    if isinstance(source, dict) and not (source.get("path") or source.get("query")):
        found.doubtful.add("dataset.path")
        left["dataset"] = {**source, **_REQUIRED["dataset"]}
    return {**_REQUIRED, **left}


def _drop(left: dict[str, Any], steps: Sequence[str]) -> Sequence[str]:
    """Drops the key to which steps lead through mappings, else the section; returns the steps to what it dropped."""
    at = left
    for step in steps[:-1]:
        if not isinstance(at.get(step), dict):
            break
        at[step] = dict(at[step])
        at = at[step]
    else:
        if len(steps) == 1 or steps[-1] in at:
            at.pop(steps[-1], None)
            return steps
    left.pop(steps[0], None)
    return steps[:1]
