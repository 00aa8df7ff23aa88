"""Publishes a finished run: sends it to the sinks of its configuration, and notes in the manifest what became of it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import replace

import orjson

from ...schemas.config.storage import OutputConfig
from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.run_folder import FINISHED, RunFolder
from ...transforms.io import storage
from ...transforms.journal.run_state import manifest_at
from ..config.placeholders import make_run_id
from ..sinks.base import FinishedRun
from ..sinks.send import Clock, describe, send_all, sinks_of
from .result import SINKS, EvaluationResult
from .tables import pick_rows, rows_of, summary_rows


def require_sinks(output: OutputConfig) -> list[str]:
    """Returns the names of the sinks that a configuration names, whose packages are installed.

    Raises:
        ConfigError: A package is missing.
    """
    sinks = sinks_of(output)
    for sink in sinks:
        sink.require()
    return [sink.name for sink in sinks]


def warn(text: str) -> None:
    """Writes a warning to standard error, on one line."""
    print(f"evalbeam: warning: {text}", file=sys.stderr)


def publish(
    result: EvaluationResult,
    output: OutputConfig | None = None,
    tell: Callable[[str], None] = warn,
    announce: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> EvaluationResult:
    """Sends a run that has finished to its sinks; does nothing with any other run.

    Nothing that goes wrong is raised: it is told, and noted in the manifest.

    Args:
        result: The run.
        output: The section of a configuration that names the sinks; default: that of the run.
        tell: Is told one line of each sink that failed.
        announce: Is told before the run is sent, which may take a minute.
        clock: The time.

    Returns:
        The result with the new manifest.
    """
    if result.state != FINISHED:
        return result
    try:
        sinks = sinks_of(output or OutputConfig.model_validate(result.manifest["config"]["output"]))
        if not sinks:
            return result
        announce(f"sending the run to {', '.join(sink.name for sink in sinks)}")
        run = FinishedRun(
            _name_run(result),
            result.output,
            result.manifest,
            summary_rows(result),
            lambda columns: rows_of(result, "instances", columns),
            lambda positions: pick_rows(result, positions),
        )
        return _note(result, send_all(run, sinks, tell, clock))
    except Exception as error:  # a run that has finished stays so
        tell(f"the run was not published: {describe(f'{type(error).__name__}: {error}')}")
        return result


def require_named(output: OutputConfig) -> list[str]:
    """Returns the names of the sinks that a configuration names.

    Raises:
        ConfigError: It names none, or what one of them needs is not installed.
    """
    if names := require_sinks(output):
        return names
    allowed = "output.mlflow, output.otel or output.vertex_experiment, in a configuration or by --set"
    raise ConfigError("no sink is named", where="publish", allowed=allowed)


def _name_run(result: EvaluationResult) -> str:
    """Returns the name under which sinks know the run. It is stored before the run is sent, beside what the run has
    paid for: so it is kept by a retry and a rescoring, and ends with an overwritten run."""
    path = RunFolder(result.output).sinks
    if not storage.exists(path):
        storage.write_whole(path, orjson.dumps({"run_id": f"{make_run_id()}{uuid.uuid4().hex[:8]}"}))
    return orjson.loads(storage.read_bytes(path))["run_id"]


def _note(result: EvaluationResult, outcomes: dict[str, Json]) -> EvaluationResult:
    """Writes the outcomes to the manifest, unless it is that of another run by now."""
    found = manifest_at(result.output)
    if found is None or found.get("measured") != result.manifest.get("measured"):
        return result
    manifest = {**found, SINKS: {**(found.get(SINKS) or {}), **outcomes}}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    storage.write_whole(RunFolder(result.output).manifest, orjson.dumps(manifest, option=options))
    return replace(result, manifest=manifest)
