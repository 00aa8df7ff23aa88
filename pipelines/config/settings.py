"""Builds a configuration from a file and the settings of a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from ...schemas.errors import ConfigError, Mistakes
from .files import load
from .placeholders import fill

if TYPE_CHECKING:
    from ...schemas.config.evaluation import EvaluationConfig

Setting: TypeAlias = tuple[str, str, Any]
"""(option as typed, dotted key, value)."""


def make_reader(option: str, key: str) -> Callable[[str], Setting]:
    """Returns the parser of an option's text: YAML, or comma-separated names for options that take a list.

    The returned function raises ConfigError if the text is not valid YAML.
    """

    def read(text: str) -> Setting:
        if option == "--metrics":
            return option, key, split_words(text)
        if option == "--slices":
            return option, key, parse_slices(text)
        if option in ("--agent", "--output", "--replay", "--gate-against"):
            return option, key, text
        from ...schemas.config.yaml_text import load_yaml

        return option, key, load_yaml(text, option)

    return read


def split(rest: Sequence[str]) -> tuple[str | None, list[str]]:
    """Splits unrecognized arguments into the configuration file, if there is one, and Beam's options.

    Raises:
        ConfigError: An argument is neither.
    """
    source: str | None = None
    flags: list[str] = []
    for i, word in enumerate(rest):
        before = rest[i - 1] if i else ""
        if word.partition("=")[0] == "--config":
            raise ConfigError(f"unknown option {word!r}", allowed="the file without it, such as evalbeam run eval.yaml")
        if word.startswith("-") or (before.startswith("--") and "=" not in before):
            flags.append(word)
        elif source is None:
            source = word
        else:
            found = f"unexpected argument {word!r}"
            raise ConfigError(found, allowed="one configuration file, then options")
    return source, flags


def assemble(
    source: str | None,
    settings: Sequence[Setting],
    run_date: str | None = None,
    run_id: str | None = None,
    found: Mistakes | None = None,
) -> EvaluationConfig:
    """Builds the configuration of a file with settings applied; without a file, of the settings alone.

    Args:
        source: Path of the file.
        settings: Changes, applied in order.
        run_date: Value of `{run_date}`.
        run_id: Value of `{run_id}`; default: one of this moment.
        found: As of `EvaluationConfig.parse`.

    Raises:
        ConfigError: Something is invalid; the message names file or option, key, the value and what is allowed.
    """
    if source is None and not settings:
        allowed = "evalbeam run eval.yaml, or --dataset and --metrics; `evalbeam init` writes an example"
        raise ConfigError("nothing to evaluate", allowed=allowed)
    data = load(source) if source is not None else {}
    return build(data, settings, run_date, source or "command line", run_id, found)


def build(
    data: Any,
    settings: Sequence[Setting],
    run_date: str | None,
    where: str,
    run_id: str | None = None,
    found: Mistakes | None = None,
) -> EvaluationConfig:
    """Builds the configuration of parsed data with settings applied; `where` names its source in messages.

    Raises:
        ConfigError: Something is invalid, see `assemble`.
    """
    from ...schemas.config.evaluation import EvaluationConfig

    for option, key, value in settings:
        put(data, key, value, option)
    fill(data, run_date, where, run_id=run_id)
    if isinstance(data, dict) and isinstance(data.get("criteria"), str):
        from .adk_criteria import resolve_criteria

        data = resolve_criteria(data)
    return EvaluationConfig.parse(data, where, found)


def put(data: Any, key: str, value: Any, option: str) -> None:
    """Sets a dotted key of nested mappings and lists, creating missing mappings.

    Raises:
        ConfigError: A step of the key is neither in a mapping nor in a list.
    """
    *steps, last = key.split(".")
    if not all((*steps, last)):
        raise ConfigError(f"found the key {key!r}", where=option, allowed="names separated by dots")
    at, path = data, ""
    for step in steps:
        at = _descend(at, step, path, option)
        path = f"{path}.{step}" if path else step
    if isinstance(at, list):
        at[_parse_index(at, last, path, option)] = value
    elif isinstance(at, dict):
        at[last] = value
    else:
        raise _make_keyless_error(at, path, option)


def _descend(at: Any, step: str, path: str, option: str) -> Any:
    """Returns the value of a key, replaced by a copy first: a YAML alias may share the value with other keys."""
    if not isinstance(at, list | dict):
        raise _make_keyless_error(at, path, option)
    place: Any = _parse_index(at, step, path, option) if isinstance(at, list) else step
    found = at[place] if isinstance(at, list) else at.get(place)
    at[place] = {} if found is None and isinstance(at, dict) else copy(found)
    return at[place]


def _parse_index(at: list[Any], step: str, path: str, option: str) -> int:
    if not step.isdecimal() or int(step) >= len(at):
        allowed = f"0 to {len(at) - 1}" if at else "nothing, it is empty"
        raise ConfigError(f"{path} is a list without index {step!r}", where=option, allowed=allowed)
    return int(step)


def _make_keyless_error(at: Any, path: str, option: str) -> ConfigError:
    return ConfigError(f"{path or 'the configuration'} is {at!r:.100}, which has no keys", where=option)


def split_words(text: str, separator: str = ",") -> list[str]:
    """Splits a comma-separated list into its non-empty words."""
    return [word.strip() for word in text.split(separator) if word.strip()]


def parse_slices(text: str) -> list[list[str]]:
    """Parses lists of columns: `a,b+c` is by a, and by b and c combined."""
    return [split_words(columns, "+") for columns in split_words(text)]
