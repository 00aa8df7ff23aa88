"""From a command line's settings and a file to a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

from ...schemas.errors import ConfigError
from .files import load
from .placeholders import fill

if TYPE_CHECKING:
    from ...schemas.config.evaluation import EvaluationConfig

Setting: TypeAlias = tuple[str, str, Any]
"""(option as typed, dotted key, value)."""


def reader(option: str, key: str) -> Callable[[str], Setting]:
    """What reads an option's text as the value of a key: YAML, or a list with commas where the key is a list.

    The returned function raises ConfigError where the text is no YAML.
    """

    def read(text: str) -> Setting:
        if option == "--metrics":
            return option, key, words_of(text)
        if option == "--slices":
            return option, key, slices_of(text)
        if option in ("--agent", "--output", "--replay"):
            return option, key, text
        from ...schemas.config.yaml_text import load_yaml

        return option, key, load_yaml(text, option)

    return read


def split(rest: Sequence[str]) -> tuple[str | None, list[str]]:
    """The configuration's file and Beam's options, of what our options left over.

    Raises:
        ConfigError: Something is neither.
    """
    source: str | None = None
    flags: list[str] = []
    for i, word in enumerate(rest):
        before = rest[i - 1] if i else ""
        if word.startswith("-") or (before.startswith("--") and "=" not in before):
            flags.append(word)
        elif source is None:
            source = word
        else:
            found = f"unexpected argument {word!r}"
            raise ConfigError(found, allowed="one configuration file, then options")
    return source, flags


def assemble(source: str | None, settings: Sequence[Setting], run_date: str | None = None) -> EvaluationConfig:
    """The configuration of a file, changed by settings; without a file, of the settings alone.

    Args:
        source: Path of the file.
        settings: Changes, in order.
        run_date: The day that `{run_date}` stands for.

    Raises:
        ConfigError: Names file or option, key, what was found and what is allowed.
    """
    from ...schemas.config.evaluation import EvaluationConfig

    if source is None and not settings:
        allowed = "evalbeam run eval.yaml, or --dataset and --metrics; `evalbeam init` writes an example"
        raise ConfigError("nothing to evaluate", allowed=allowed)
    data = load(source) if source is not None else {}
    for option, key, value in settings:
        put(data, key, value, option)
    fill(data, run_date, source or "command line")
    if isinstance(data, dict) and isinstance(data.get("criteria"), str):
        from .adk_criteria import with_criteria

        data = with_criteria(data)
    return EvaluationConfig.parse(data, source or "command line")


def put(data: Any, key: str, value: Any, option: str) -> None:
    """Sets a dotted key of nested mappings and lists, making the mappings that are missing.

    Raises:
        ConfigError: The key goes through something that has no keys.
    """
    *steps, last = key.split(".")
    if not all((*steps, last)):
        raise ConfigError(f"found the key {key!r}", where=option, allowed="names with a dot between them")
    at, path = data, ""
    for step in steps:
        at = _step(at, step, path, option)
        path = f"{path}.{step}" if path else step
    if isinstance(at, list):
        at[_index(at, last, path, option)] = value
    elif isinstance(at, dict):
        at[last] = value
    else:
        raise _keyless(at, path, option)


def _step(at: Any, step: str, path: str, option: str) -> Any:
    """What stands under a key, as its own from now on: with an alias of YAML's, other keys stand for the same."""
    if not isinstance(at, list | dict):
        raise _keyless(at, path, option)
    place: Any = _index(at, step, path, option) if isinstance(at, list) else step
    found = at[place] if isinstance(at, list) else at.get(place)
    at[place] = {} if found is None and isinstance(at, dict) else copy(found)
    return at[place]


def _index(at: list[Any], step: str, path: str, option: str) -> int:
    if not step.isdecimal() or int(step) >= len(at):
        allowed = f"0 to {len(at) - 1}" if at else "nothing, it is empty"
        raise ConfigError(f"{path} is a list and has no {step!r}", where=option, allowed=allowed)
    return int(step)


def _keyless(at: Any, path: str, option: str) -> ConfigError:
    return ConfigError(f"{path or 'the configuration'} is {at!r:.100}, which has no keys", where=option)


def words_of(text: str, separator: str = ",") -> list[str]:
    """The words of a list as it is typed, with commas; empty ones are left out."""
    return [word.strip() for word in text.split(separator) if word.strip()]


def slices_of(text: str) -> list[list[str]]:
    """The lists of columns that are typed as `a,b+c`: by a, and by b and c at once."""
    return [words_of(columns, "+") for columns in words_of(text)]
