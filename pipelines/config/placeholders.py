"""Placeholders of a configuration: the day of a scheduled run, a new folder for each run, and environment variables.

`output.path` may contain `{run_id}`, which stands for the time of the start, so that each one has a folder of its own.
`{run_date}` and `${NAME}` are allowed in the paths of a configuration (`dataset.path`, `dataset.query`, `output.path`)
and in the other keys that depend on the day (`PLACES`), so that one file serves every day and every stage of a
deployment. They are replaced before validation: tables and manifest contain the final values.
"""

from __future__ import annotations

import datetime
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from ...schemas.errors import ConfigError

PLACES = (
    ("dataset", "path"),
    ("dataset", "query"),
    ("dataset", "where"),
    ("labels", "path"),
    ("output", "path"),
    ("output", "bigquery", "run_id"),
    ("output", "bigquery", "run_date"),
    ("output", "mlflow", "tracking_uri"),
    ("output", "mlflow", "experiment"),
    ("output", "mlflow", "run_name"),
    ("output", "otel", "endpoint"),
    ("output", "vertex_experiment", "project"),
    ("output", "vertex_experiment", "experiment"),
    ("output", "vertex_experiment", "run_name"),
)
"""Keys in which placeholders are replaced; in any other key they are plain text."""

RUN_ID = "{run_id}"
_PLACEHOLDER = re.compile(r"\{run_date\}|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|(\$\{\w+:[^{}]*\})")


def parse_day(text: str) -> str:
    """Normalizes a date to the form used in paths, "2026-11-21".

    Args:
        text: "2026-11-21", or "20261121".

    Raises:
        ConfigError: The text is not a date.
    """
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise ConfigError(f"found {text!r}", where="--run-date", allowed="a date such as 2026-11-21") from None


def make_run_id() -> str:
    """Makes a name for a run: its start in UTC, by which names sort, and four random digits."""
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"


def fill(
    data: Any,
    run_date: str | None,
    source: str,
    environ: Mapping[str, str] = os.environ,
    run_id: str | None = None,
) -> None:
    """Replaces the placeholders of a configuration, in place.

    Inserted values are not scanned again, so a variable whose value contains "{run_date}" is inserted unchanged.

    Args:
        data: The parsed configuration with the command line's settings, before validation.
        run_date: The day of the run, see `parse_day`.
        source: Name of the file, for messages.
        environ: Environment variables for `${NAME}`.
        run_id: Value of `{run_id}`; default: one of this moment.

    Raises:
        ConfigError: A placeholder has no value, or is a reference to a secret, which these keys do not take.
    """
    for place in PLACES:
        *sections, key = place
        part = data
        for section in sections:
            part = part.get(section) if isinstance(part, dict) else None
        if not isinstance(part, dict) or key not in part:
            continue
        where, value = f"{source}: {'.'.join(place)}", part[key]
        if place == ("output", "path") and isinstance(value, str):
            value = value.replace(RUN_ID, run_id or make_run_id())
        if isinstance(value, str):
            part[key] = _replace(value, run_date, where, environ)
        elif isinstance(value, list):
            part[key] = [_replace(v, run_date, where, environ) if isinstance(v, str) else v for v in value]


def _replace(text: str, run_date: str | None, where: str, environ: Mapping[str, str]) -> str:
    def find_value(match: re.Match[str]) -> str:
        name, secret = match.groups()
        if secret is not None:
            allowed = "${NAME} for an environment variable"
            raise ConfigError(f"{secret} refers to a secret", where=where, allowed=allowed)
        if name is None:
            if run_date is None:
                raise ConfigError("{run_date} has no value", where=where, allowed="--run-date with a day")
            return run_date
        if name not in environ:
            raise ConfigError(f"the environment variable {name} is not set", where=where)
        return environ[name]

    return _PLACEHOLDER.sub(find_value, text)
