"""Finds the instances table of the run that pairwise metrics compare with."""

from __future__ import annotations

from ...schemas.errors import ConfigError
from ...schemas.run_folder import FINISHED
from .result import EvaluationResult


def baseline_files(folder: str) -> tuple[str, ...]:
    """The Parquet files of a finished run's instances table.

    Raises:
        ConfigError: There is no finished run, or its tables are in another format.
    """
    try:
        run = EvaluationResult.load(folder)
    except ConfigError:
        raise ConfigError(f"no finished run at {folder!r}", where="baseline") from None
    if run.state != FINISHED:
        raise ConfigError(f"the run at {folder!r} is {run.state}", where="baseline", allowed="a finished run")
    files = run.files("instances")
    if not files or not all(path.endswith(".parquet") for path in files):
        shown = files[0] if files else "no instances table"
        raise ConfigError(f"found {shown}", where="baseline", allowed="a run with output.format: parquet")
    return tuple(files)
