"""Sends a finished run to its sinks. What goes wrong is told and noted; it never ends the caller."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from ...schemas.addresses import hide_secrets
from ...schemas.config.storage import OutputConfig
from ...schemas.errors import ConfigError
from ...schemas.json import Json
from .base import FinishedRun, Sink, SinkError, TryLater
from .mlflow import MlflowSink
from .otel import OtelSink
from .vertex import VertexSink

MOST_ATTEMPTS = 4
PATIENCE = 60.0
"""Seconds after the first attempt of a sink in which another one may begin."""
_BACKOFF = 1.0
"""Seconds before the second attempt; they double with each further one."""
_MOST_CHARACTERS = 500
_SECRET_VARIABLE = re.compile(r"auth|token|secret|password|credential|key|headers", re.IGNORECASE)
_SHORTEST = 6
"""Characters of the shortest value of a variable that counts as a secret; shorter ones would hide common words."""


@dataclass(frozen=True)
class Clock:
    """The time, which tests replace.

    Attributes:
        now: Returns seconds that only grow.
        sleep: Waits for so many seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def sinks_of(output: OutputConfig) -> list[Sink]:
    """Returns the sinks that a configuration names."""
    made = ((output.mlflow, MlflowSink), (output.otel, OtelSink), (output.vertex_experiment, VertexSink))
    return [make(config) for config, make in made if config is not None]  # type: ignore[arg-type]  (of the same row)


def send_all(
    run: FinishedRun, sinks: Sequence[Sink], tell: Callable[[str], None], clock: Clock | None = None
) -> dict[str, Json]:
    """Sends a run to each sink.

    Args:
        run: The run.
        sinks: The sinks.
        tell: Is told one line of each sink that failed.
        clock: The time.

    Returns:
        What became of each sink by its name, for the manifest: `state` ("sent" or "failed"), `attempts`, and where the
        run is found there or the `reason`.
    """
    found: dict[str, Json] = {}
    for sink in sinks:
        found[sink.name] = outcome = _send(run, sink, clock or Clock())
        if outcome["state"] == "failed":
            again = f"`evalbeam publish {run.output}` sends it again"
            tell(f"output.{sink.name}: the run was not sent: {outcome['reason']}; {again}")
    return found


def _send(run: FinishedRun, sink: Sink, clock: Clock) -> dict[str, Json]:
    began = clock.now()
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            return {"state": "sent", "attempts": attempt, **sink.send(run)}
        except (SinkError, ConfigError) as error:
            return _failed(attempt, str(error))
        except KeyboardInterrupt:
            return _failed(attempt, "stopped by Ctrl-C")
        except Exception as error:  # each client has exceptions of its own
            reason = str(error) if isinstance(error, TryLater) else f"{type(error).__name__}: {error}"
            wait = max(_BACKOFF * 2 ** (attempt - 1), error.seconds if isinstance(error, TryLater) else 0.0)
            if attempt == MOST_ATTEMPTS or clock.now() - began + wait > PATIENCE:
                return _failed(attempt, reason)
        try:
            clock.sleep(wait)
        except KeyboardInterrupt:
            return _failed(attempt, "stopped by Ctrl-C")
    raise AssertionError("the last attempt returns")


def _failed(attempts: int, reason: str) -> dict[str, Json]:
    return {"state": "failed", "attempts": attempts, "reason": describe(reason)}


def describe(reason: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns a reason on one line of bounded length, without passwords of addresses and secrets of the environment."""
    text = hide_secrets(" ".join(reason.split()))
    for value in sorted(_secrets_in(environ), key=len, reverse=True):
        text = text.replace(value, "***")
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} …"


def _secrets_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Yields the values of the variables that are named like secrets; of headers, each value by itself too."""
    for name, value in environ.items():
        if not _SECRET_VARIABLE.search(name):
            continue
        parts = [part.partition("=")[2].strip() for part in value.split(",")] if "HEADERS" in name else []
        yield from (v for v in {value, *parts, *map(unquote, parts)} if len(v) >= _SHORTEST)
