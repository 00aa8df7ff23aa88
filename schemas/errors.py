"""What can go wrong, as one tree.

EvalbeamError
├── ConfigError     the configuration, the command or a part it names cannot be used (exit code 2)
│   └── DatasetError    the dataset lacks a column; also a ValueError
├── RunError        the run itself failed or was stopped (exit code 3)
├── RowError        one dataset row cannot be used; becomes a row of the errors table
├── AgentError      one agent call failed; becomes the error columns of its row
└── JudgeError      one judge call failed; becomes the error of one score
"""

from __future__ import annotations


class EvalbeamError(Exception):
    """Base of every error evalbeam raises on purpose; its text is meant for the user."""


class ConfigError(EvalbeamError):
    """The configuration, the command line or a part named in it cannot be used.

    Args:
        what: What was found, in words that name the thing; shown in part where it is longer than 1,000 characters.
        where: The config key ("agent.timeout"), file or option it stands in.
        allowed: The choices, or what would have been accepted.
    """

    def __init__(self, what: str, *, where: str = "", allowed: str = "") -> None:
        what = what if len(what) <= 1000 else f"{what[:700]} … {what[-300:]}"
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text} (allowed: {allowed})" if allowed else text)
        self.what, self.where, self.allowed = what, where, allowed


class DatasetError(ConfigError, ValueError):
    """The dataset lacks a column without which nothing can be scored.

    It is a ValueError, too: that is what users of the evaluation SDK of Vertex AI catch for arguments that do not fit.
    """


class RunError(EvalbeamError):
    """The run failed or was stopped; what was paid for is in its journal."""


class RowError(EvalbeamError):
    """One row cannot be used.

    Args:
        code: A stable snake_case word, e.g. "missing_prompt".
        message: What was found and what was expected, without addresses or durations.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class AgentError(EvalbeamError):
    """One agent call failed or answered something that is no answer."""


class JudgeError(EvalbeamError):
    """One judge call failed or answered something that is no verdict.

    Attributes:
        usage: Tokens that the answer took all the same, `{input_tokens, output_tokens}`; `None` where nobody says.
    """

    usage: dict[str, int | None] | None = None
