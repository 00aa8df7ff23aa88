"""The launcher of the Dataflow flex template: submits the run that its parameters describe and does not wait for it.

A flex template starts this program with `--name=value` for each parameter of `deploy/dataflow/metadata.json`, and with
Beam's own options (`--runner`, `--project`, `--sdk_container_image` ...), which are passed to Beam.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ...schemas.errors import ConfigError, EvalbeamError
from ...schemas.exit_codes import EXIT_CONFIG, EXIT_PASSED, EXIT_RUN
from ..config.settings import Setting, assemble
from ..display.console import fault, note

PARAMETERS = ("config", "run_date", "dataset", "output", "settings", "overwrite", "resume_anyway")
"""Names of the template's parameters that are not Beam's."""

_KEYS = {"dataset": "dataset.path", "output": "output.path"}
_SWITCHES = {"overwrite": "output.overwrite", "resume_anyway": "output.resume_anyway"}


def main(argv: Sequence[str] | None = None) -> int:
    """Submits the run that the template's parameters describe.

    Args:
        argv: Arguments after the program's name; default: those of the process.

    Returns:
        0 if the job was submitted, 2 if the parameters are invalid, 3 if the job could not be submitted.
    """
    try:
        parameters, flags = split(sys.argv[1:] if argv is None else argv)
        settings = settings_of(parameters)
        run_date = parameters.get("run_date")
        from ..config.placeholders import parse_day
        from ..run.build import make_plan
        from ..run.evaluate import submit
        from ..runners import options as engines

        config = assemble(parameters["config"], settings, None if run_date is None else parse_day(run_date))
        submit(make_plan(config), engines.pipeline_options(flags))
    except EvalbeamError as error:
        fault(str(error))
        return EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_RUN
    note(f"submitted; follow it with `evalbeam wait {config.output.path}`")
    return EXIT_PASSED


def split(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Splits the arguments into the template's non-empty parameters and the options for Beam.

    Raises:
        ConfigError: A parameter has no value, or `--config` is missing.
    """
    parameters: dict[str, str] = {}
    flags: list[str] = []
    for word in argv:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in PARAMETERS:
            flags.append(word)
        elif not equals:
            raise ConfigError("has no value", where=word, allowed=f"{word}=VALUE")
        elif value:  # the template's form sends fields left empty as empty strings
            parameters[name] = value
    if "config" not in parameters:
        raise ConfigError("missing", where="--config", allowed="a YAML or JSON file on gs://")
    return parameters, flags


def settings_of(parameters: dict[str, str]) -> list[Setting]:
    """Lists the settings that the parameters make in the configuration.

    Raises:
        ConfigError: `settings` is not a JSON object, or a switch is neither true nor false.
    """
    settings: list[Setting] = [(f"--{n}", key, parameters[n]) for n, key in _KEYS.items() if n in parameters]
    for name, key in _SWITCHES.items():
        value = parameters.get(name, "false")
        if value not in ("true", "false"):
            raise ConfigError(f"found {value!r}", where=f"--{name}", allowed="true, false")
        if value == "true":
            settings.append((f"--{name}", key, True))
    return settings + [
        ("--settings", key, value) for key, value in _parse_object(parameters.get("settings", "{}")).items()
    ]


def _parse_object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        found = f"not valid JSON: {error.msg} at character {error.pos + 1}"
        raise ConfigError(found, where="--settings", allowed='an object such as {"dataset.limit": 1000}') from None
    if not isinstance(value, dict):
        raise ConfigError(f"found {text[:100]!r}", where="--settings", allowed='an object such as {"trials": 3}')
    return value
