"""The launcher of the Dataflow flex template: its parameters become a run, which is submitted and not waited for.

A flex template starts this program with `--name=value` for each parameter of `deploy/dataflow/metadata.json`, and with
Beam's own options (`--runner`, `--project`, `--sdk_container_image` ...), which go on to Beam.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ...schemas.errors import ConfigError, EvalbeamError
from ..config.settings import Setting, assemble
from ..display.console import fault, note
from .commands.base import CONFIG, PASSED, RUN

PARAMETERS = ("config", "run_date", "dataset", "output", "settings", "overwrite", "resume_anyway")
"""Names of the template's parameters that are not Beam's."""

_KEYS = {"dataset": "dataset.path", "output": "output.path"}
_SWITCHES = {"overwrite": "output.overwrite", "resume_anyway": "output.resume_anyway"}


def main(argv: Sequence[str] | None = None) -> int:
    """Submits the run that the template's parameters describe.

    Args:
        argv: Arguments after the program's name; default: those of the process.

    Returns:
        0 submitted, 2 the parameters cannot be used, 3 the job could not be submitted.
    """
    try:
        parameters, flags = split(sys.argv[1:] if argv is None else argv)
        settings = settings_of(parameters)
        run_date = parameters.get("run_date")
        from ..config.placeholders import day
        from ..run.build import make_plan
        from ..run.evaluate import submit
        from ..runners import options as engines

        config = assemble(parameters["config"], settings, None if run_date is None else day(run_date))
        submit(make_plan(config), engines.pipeline_options(flags))
    except EvalbeamError as error:
        fault(str(error))
        return CONFIG if isinstance(error, ConfigError) else RUN
    note(f"submitted: the run's state is in {config.output.path}; `evalbeam wait` follows it")
    return PASSED


def split(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The template's parameters, without the empty ones, and the options for Beam.

    Raises:
        ConfigError: A parameter has no value, or there is no configuration.
    """
    parameters: dict[str, str] = {}
    flags: list[str] = []
    for word in argv:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in PARAMETERS:
            flags.append(word)
        elif not equals:
            raise ConfigError("has no value", where=word, allowed=f"{word}=VALUE")
        elif value:  # a template's form sends what was left open as an empty text
            parameters[name] = value
    if "config" not in parameters:
        raise ConfigError("missing", where="--config", allowed="a YAML or JSON file on gs://")
    return parameters, flags


def settings_of(parameters: dict[str, str]) -> list[Setting]:
    """What the parameters change in the configuration.

    Raises:
        ConfigError: `settings` is no JSON object, or a switch neither true nor false.
    """
    found: list[Setting] = [(f"--{n}", key, parameters[n]) for n, key in _KEYS.items() if n in parameters]
    for name, key in _SWITCHES.items():
        value = parameters.get(name, "false")
        if value not in ("true", "false"):
            raise ConfigError(f"found {value!r}", where=f"--{name}", allowed="true, false")
        if value == "true":
            found.append((f"--{name}", key, True))
    return found + [("--settings", key, value) for key, value in _object(parameters.get("settings", "{}")).items()]


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        found = f"not valid JSON: {error.msg} at character {error.pos + 1}"
        raise ConfigError(found, where="--settings", allowed='an object such as {"dataset.limit": 1000}') from None
    if not isinstance(value, dict):
        raise ConfigError(f"found {text[:100]!r}", where="--settings", allowed='an object such as {"trials": 3}')
    return value
