"""What a sink is: a service that is told of a finished run, as often as somebody asks, with the same outcome."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ...schemas.json import Json
from ...schemas.run_folder import describe_columns

Row: TypeAlias = dict[str, Json]
"""A row of a table under our own column names, missing values as `None`."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, as sinks see it.

    Attributes:
        run_id: Name of the run; it stays if the run is retried, rescored or published again.
        output: Folder of the run.
        manifest: Contents of its manifest.json.
        summary: Rows of the summary table, each `slice` as a dict.
        read: Reads the rows of the instances table in order, with these columns or all.
        pick: Reads the rows of the instances table at these ascending positions.
    """

    run_id: str
    output: str
    manifest: Mapping[str, Json]
    summary: Sequence[Row]
    read: Callable[[Sequence[str] | None], Iterator[Row]]
    pick: Callable[[Sequence[int]], Iterator[Row]]

    @property
    def config(self) -> Mapping[str, Json]:
        """The configuration of the run."""
        return self.manifest["config"]

    @property
    def columns(self) -> dict[str, Mapping[str, Json]]:
        """What the manifest says of the columns of the instances table, by our own names."""
        return describe_columns(self.manifest)

    @property
    def started(self) -> float:
        """Start of the run, in seconds since 1970."""
        return self.manifest["measured"]["started"]

    @property
    def finished(self) -> float:
        """End of the run, in seconds since 1970."""
        return self.manifest["measured"]["finished"]

    @property
    def name(self) -> str:
        """The last part of the folder's path."""
        return self.output.rstrip("/").rpartition("/")[2] or "run"

    @property
    def version(self) -> str:
        """Version of evalbeam that wrote the tables."""
        return str((self.manifest.get("versions") or {}).get("evalbeam", ""))

    @property
    def whole(self) -> list[Row]:
        """Rows of the summary over the whole dataset."""
        return [row for row in self.summary if not row["slice"]]

    @property
    def ratings(self) -> Mapping[str, str]:
        """Model that judged each metric of judges, "" if its name is unknown."""
        spent = (self.manifest.get("judging") or {}).get("spent") or ()
        return {one["metric"]: one.get("model") or "" for one in spent}


class SinkError(Exception):
    """A service refused what it was sent, so that there is no use in sending it again."""


class TryLater(Exception):
    """A service asks to wait before the next attempt.

    Attributes:
        seconds: How long.
    """

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = seconds


class Sink(Protocol):
    """A service that is told of finished runs."""

    @property
    def name(self) -> str:
        """Its key below `output`."""
        ...

    def require(self) -> None:
        """Checks that what the sink needs is installed.

        Raises:
            ConfigError: A package is missing.
        """
        ...

    def send(self, run: FinishedRun) -> dict[str, Json]:
        """Sends a run; the same run sent again replaces what was sent before.

        Returns:
            Where the run is found there, for the manifest.

        Raises:
            SinkError, ConfigError: It is refused for good.
            Exception: Anything else may pass, so that sending is tried again.
        """
        ...


@contextlib.contextmanager
def quieting(*loggers: str, **variables: str) -> Iterator[None]:
    """Keeps a client from writing to the terminal: its prints, warnings and logs are dropped meanwhile.

    Args:
        *loggers: Names of its loggers.
        **variables: Variables of the environment that are set meanwhile, unless the user has set them.
    """
    levels = {name: logging.getLogger(name).level for name in loggers}
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    for name in loggers:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name in added:
            os.environ.pop(name, None)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
