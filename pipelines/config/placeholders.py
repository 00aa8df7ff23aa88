"""What a scheduled run leaves open in its configuration: the day it is for, and variables of the environment.

`{run_date}` and `${NAME}` stand in the paths of a configuration (`dataset.path`, `dataset.query`, `output.path`) and in
what else depends on the day (`PLACES`), so that one file serves every day and every stage of a deployment. They are
filled in before anything else is read: tables and manifest show the values as they became.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Mapping
from typing import Any

from ...schemas.errors import ConfigError

PLACES = (
    ("dataset", "path"),
    ("dataset", "query"),
    ("dataset", "where"),
    ("output", "path"),
    ("output", "bigquery", "run_id"),
    ("output", "bigquery", "run_date"),
)
"""Keys in which placeholders are filled in; anywhere else they are text."""

_PLACEHOLDER = re.compile(r"\{run_date\}|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|(\$\{\w+:[^{}]*\})")


def day(text: str) -> str:
    """A day as it is written into paths.

    Args:
        text: "2026-11-21", or "20261121".

    Raises:
        ConfigError: It is no day.
    """
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise ConfigError(f"found {text!r}", where="--run-date", allowed="a day such as 2026-11-21") from None


def fill(data: Any, run_date: str | None, source: str, environ: Mapping[str, str] = os.environ) -> None:
    """Fills in the placeholders of a configuration, in place.

    A value that is filled in is not looked at again, so one that contains "{run_date}" stays as it is.

    Args:
        data: What YAML or JSON and the command line gave, before it is checked.
        run_date: The day the run is for, see `day`.
        source: Name of the file, for messages.
        environ: Variables that `${NAME}` may name.

    Raises:
        ConfigError: A placeholder has no value, or refers to a secret as keys do that hold one; names the key.
    """
    for place in PLACES:
        *sections, key = place
        part = data
        for section in sections:
            part = part.get(section) if isinstance(part, dict) else None
        if not isinstance(part, dict) or key not in part:
            continue
        where, value = f"{source}: {'.'.join(place)}", part[key]
        if isinstance(value, str):
            part[key] = _filled(value, run_date, where, environ)
        elif isinstance(value, list):
            part[key] = [_filled(v, run_date, where, environ) if isinstance(v, str) else v for v in value]


def _filled(text: str, run_date: str | None, where: str, environ: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, secret = found.groups()
        if secret is not None:
            allowed = "${NAME} for a variable of the environment"
            raise ConfigError(f"{secret} refers to a secret", where=where, allowed=allowed)
        if name is None:
            if run_date is None:
                raise ConfigError("{run_date} has no value", where=where, allowed="--run-date with a day")
            return run_date
        if name not in environ:
            raise ConfigError(f"the environment has no {name}", where=where, allowed="a variable that is set")
        return environ[name]

    return _PLACEHOLDER.sub(value, text)
