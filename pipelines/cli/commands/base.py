"""What the commands share.

A command is a function `(args, rest) -> exit code`, given the parsed arguments and those that no option took, and set
as the `handle` of its parser by the `add` of the module it stands in. Importing such a module costs milliseconds:
everything heavy is imported by the function that needs it.
"""

from __future__ import annotations

from typing import Any

from ....schemas.errors import ConfigError

SLICES = "by columns, with commas; a+b by both at once"
"""What the option --slices is given, in words."""
PASSED, CRITERION, CONFIG, RUN = 0, 1, 2, 3
"""Exit codes."""


def no_more(rest: list[str]) -> None:
    """Refuses arguments that no option took."""
    if rest:
        raise ConfigError(f"unknown argument {rest[0]!r}", allowed="see --help")


def request_at(stream: Any, command: str) -> bytes:
    """What is at the standard input.

    Raises:
        ConfigError: It is a terminal.
    """
    if stream.isatty():
        raise ConfigError("no request at the input", allowed=f"evalbeam {command} < request.json")
    return stream.buffer.read()


def show_result(result: Any, say: Any) -> None:
    """Shows a run's summary."""
    from ...display.console import width
    from ...display.terminal import render

    say(render(result, width()))


def show_end(result: Any) -> int:
    """Shows how a run ended; returns the exit code."""
    from ...display.console import fault, say

    show_result(result, say)
    if result.exit_code == RUN:
        ended = "finished, but" if result.state == "finished" else f"{result.state}:"
        fault(f"the run {ended} {result.reason or 'no reason given'}")
    return result.exit_code
