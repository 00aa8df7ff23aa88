"""The tree of evalbeam's errors.

EvalbeamError
├── ConfigError     the configuration, the command line or a part named in it is invalid (exit code 2); a ValueError
│   ├── ConfigErrors    several mistakes in a configuration
│   └── DatasetError    the dataset lacks a column
├── RunError        the run itself failed or was stopped (exit code 3)
├── RowError        one dataset row is unusable; becomes a row of the errors table
├── AgentError      one agent call failed; becomes the error columns of its row
└── JudgeError      one judge call failed; becomes the error of one score
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection, Sequence


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


def raise_errors(errors: Sequence[ConfigError]) -> None:
    """Raises the mistakes that were found, if there are any.

    Raises:
        ConfigError: There is one.
        ConfigErrors: There are several.
    """
    if errors:
        raise errors[0] if len(errors) == 1 else ConfigErrors(errors)


def name_error(found: str, name: str, known: Collection[str], where: str = "", allowed: str = "") -> ConfigError:
    """Makes the error of a name that is not known: up to three names that are near, else what is allowed.

    Args:
        found: What was found, for example "unknown key 'pth'".
        name: The name.
        known: The names that are known.
        where: As of `ConfigError`.
        allowed: The accepted values if no name is near; default: all known names.
    """
    near = [repr(one) for one in difflib.get_close_matches(name, known, n=3)]
    if near:
        words = " or ".join(filter(None, (", ".join(near[:-1]), near[-1])))
        return ConfigError(f"{found}; did you mean {words}?", where=where)
    return ConfigError(found, where=where, allowed=allowed or ", ".join(sorted(known)))


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
