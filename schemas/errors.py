"""The tree of evalbeam's errors.

EvalbeamError
├── ConfigError     the configuration, the command line or a part named in it is invalid (exit code 2); a ValueError
│   ├── ConfigErrors    several mistakes in a configuration
│   ├── UnknownName     a name that nothing has
│   └── DatasetError    the dataset lacks a column
├── RunError        the run itself failed or was stopped (exit code 3)
├── RowError        one dataset row is unusable; becomes a row of the errors table
├── AgentError      one agent call failed; becomes the error columns of its row
└── JudgeError      one judge call failed; becomes the error of one score
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager


def require_system() -> None:
    """Refuses systems that evalbeam does not run on: Windows has no file locks as runs need them.

    Raises:
        ConfigError: This is such a system.
    """
    if sys.platform == "win32":
        raise ConfigError(
            "evalbeam runs on Linux and macOS; on Windows, install it in WSL, the Windows Subsystem for Linux"
        )


class EvalbeamError(Exception):
    """Base class of all errors that evalbeam raises deliberately; their text is written for the user."""


class ConfigError(EvalbeamError, ValueError):
    """The configuration, the command line or a part named in it is invalid.

    Also a ValueError, which users of the Vertex AI evaluation SDK catch for invalid arguments.

    Args:
        what: What was found; shortened if it is longer than 1,000 characters.
        where: The config key ("agent.timeout"), file or option.
        allowed: The accepted values.
    """

    def __init__(self, what: str, *, where: str = "", allowed: str = "") -> None:
        what = what if len(what) <= 1000 else f"{what[:700]} … {what[-300:]}"
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text} (allowed: {allowed})" if allowed else text)
        self.what, self.where, self.allowed = what, where, allowed


class ConfigErrors(ConfigError):
    """Several mistakes in a configuration; the text has a line for each.

    Attributes:
        errors: The mistakes, in the order of the configuration; `what`, `where` and `allowed` are those of the first.
    """

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.what, where=first.where, allowed=first.allowed)
        self.args, self.errors = ("\n".join(map(str, errors)),), tuple(errors)


class UnknownName(ConfigError):
    """Nothing has the name that is given; see `name_error`.

    Attributes:
        name: The name.
    """

    name = ""


class Mistakes:
    """Collects the mistakes of a configuration, so that the checks go on after one.

    Attributes:
        errors: The mistakes so far, in the order in which they were found.
        doubtful: Dotted keys that were refused. What only follows from that is no mistake of its own. A refused metric
            is "metrics." and its name.
    """

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self.doubtful: set[str] = set()

    @contextmanager
    def collect(self, *doubtful: str, unless: Callable[[str], bool] = lambda _: False) -> Iterator[None]:
        """Keeps the mistakes that are raised within, and goes on behind it.

        Args:
            *doubtful: Keys that are refused if there is one.
            unless: Returns whether a name that nothing has may be missing because of another mistake.
        """
        try:
            yield
        except ConfigError as error:
            self.add(error, unless)
            self.doubtful.update(doubtful)

    def add(self, error: ConfigError, unless: Callable[[str], bool] = lambda _: False) -> None:
        """Keeps a mistake, or several of them; `unless` as of `collect`."""
        several = error.errors if isinstance(error, ConfigErrors) else (error,)
        self.errors += [one for one in several if not (isinstance(one, UnknownName) and unless(one.name))]

    def doubts(self, *keys: str) -> bool:
        """Returns whether one of the keys was refused, or a key above or below it."""
        return any(_is_within(key, one) or _is_within(one, key) for key in keys for one in self.doubtful)

    def raise_all(self) -> None:
        """Raises the mistakes that were found, if there are any.

        Raises:
            ConfigError: There is one.
            ConfigErrors: There are several.
        """
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else ConfigErrors(self.errors)


def _is_within(key: str, section: str) -> bool:
    return key == section or key.startswith((f"{section}.", f"{section}/"))


def near_names(name: str, known: Collection[str]) -> list[str]:
    """Returns up to three known names that may be meant."""
    return difflib.get_close_matches(name, known, n=3)


def name_error(found: str, name: str, known: Collection[str], where: str = "", allowed: str = "") -> UnknownName:
    """Makes the error of a name that is not known: up to three names that are near, else what is allowed.

    Args:
        found: What was found, for example "unknown key 'pth'".
        name: The name.
        known: The names that are known.
        where: As of `ConfigError`.
        allowed: The accepted values if no name is near; default: all known names.
    """
    near = list(map(repr, near_names(name, known)))
    if near:
        words = " or ".join(filter(None, (", ".join(near[:-1]), near[-1])))
        error = UnknownName(f"{found}; did you mean {words}?", where=where)
    else:
        error = UnknownName(found, where=where, allowed=allowed or ", ".join(sorted(known)))
    error.name = name
    return error


class DatasetError(ConfigError):
    """The dataset lacks a column that scoring needs."""


class RunError(EvalbeamError):
    """The run failed or was stopped; its completed calls are in the journal."""


class RowError(EvalbeamError):
    """One row is unusable.

    Args:
        code: A stable snake_case word, e.g. "missing_prompt".
        message: What was found and what was expected, without addresses or durations.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class AgentError(EvalbeamError):
    """One agent call failed or returned an invalid answer."""


class JudgeError(EvalbeamError):
    """One judge call failed or returned no valid verdict.

    Attributes:
        usage: Tokens that the failed answer used, `{input_tokens, output_tokens}`; `None` if unknown.
    """

    usage: dict[str, int | None] | None = None
