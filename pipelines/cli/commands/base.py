"""Helpers shared by the commands.

A command is a function `(args, rest) -> exit code` of the parsed arguments and the unrecognized ones. The function
`add` of its module sets it as the `handle` of its parser. Heavy imports stay inside the functions that need them, so
that importing a command module takes milliseconds.
"""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.errors import ConfigError
from ....schemas.exit_codes import EXIT_CRITERION, EXIT_INCONCLUSIVE, EXIT_PASSED, EXIT_PENDING, EXIT_RUN

SLICES = "by columns, separated by commas; a+b combines two"
"""Help text of the value of --slices."""
FORMS = ("text", "json", "markdown", "junit")
"""Forms in which a run can be printed."""
_WORSE = (EXIT_PASSED, EXIT_INCONCLUSIVE, EXIT_CRITERION)
"""Exit codes of runs with a result and of comparisons, the worst last."""


def reject_arguments(rest: list[str]) -> None:
    """Rejects unrecognized arguments.

    Raises:
        ConfigError: There is one.
    """
    if rest:
        raise ConfigError(f"unknown argument {rest[0]!r}", allowed="see --help")


def parse_number(text: str, where: str, allowed: str) -> float:
    """Parses the number of an option.

    Raises:
        ConfigError: It is none.
    """
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"found {text!r}", where=where, allowed=allowed) from None


def read_request(stream: Any, command: str) -> bytes:
    """Reads the request from standard input.

    Raises:
        ConfigError: Standard input is a terminal.
    """
    if stream.isatty():
        raise ConfigError("no request on standard input", allowed=f"evalbeam {command} < request.json")
    return stream.buffer.read()


def add_metrics(parser: argparse.ArgumentParser, words: str) -> None:
    """Adds the option that names metrics of a finished run; its value is a list, or `None`."""
    parser.add_argument("--metrics", metavar="NAMES", type=_parse_words, help=words)


def _parse_words(text: str) -> list[str]:
    from ...config.settings import split_words

    return split_words(text)


def add_form(parser: argparse.ArgumentParser) -> None:
    """Adds the option that chooses the form in which a run is printed."""
    words = "print the run as text (default), json, markdown, or junit for CI systems"
    parser.add_argument("--as", dest="form", default="text", choices=FORMS, metavar="FORM", help=words)


def show_result(result: Any, form: str = "text", whole: bool = False, gate: Any = None) -> None:
    """Writes the summary of a run, and the comparison with its gate's, in one of `FORMS` to standard output."""
    from ...display.console import say, say_in_colour, width
    from ...display.exports import render_as

    (say_in_colour if form == "text" else say)(render_as(form, result, width(), whole, gate))


def add_to_job(markdown: str) -> None:
    """Appends Markdown to the page of the CI job, if there is one."""
    from ...display.console import note
    from ...display.exports import append_step_summary

    try:
        append_step_summary(markdown)
    except OSError as error:
        note(f"the summary of the CI job could not be written: {error}")


def write_page(result: Any, gate: Any = None) -> None:
    """Writes the page of a run and the comparison with its gate's, or its error; a failure is only reported."""
    from ...display.console import note
    from ...report.page import write_report

    try:
        write_report(result, gate)
    except OSError as error:
        note(f"the report could not be written: {error}")


def publish_with_notes(result: Any, output: Any = None) -> Any:
    """Sends a finished run to its sinks, named by a configuration's output section or else by the run's own.

    Returns:
        The result with the new manifest.
    """
    from ...display.console import note
    from ...run.publish import publish

    return publish(result, output, tell=lambda text: note(f"warning: {text}"), announce=note)


def show_end(result: Any, form: str = "text", ended: bool = False) -> int:
    """Shows the summary of a run, the comparison with the run of its gate and, if it failed, the reason.

    Args:
        result: The run.
        form: One of `FORMS`.
        ended: The run has just ended here: its page is written, and it is sent to its sinks.

    Returns:
        The exit code: the worse one of the run's and the comparison's.

    Raises:
        ConfigError: The run cannot be compared; everything else is shown.
    """
    from ...display.console import fault, note
    from ...display.exports import render_markdown

    gate = _compare_gate(result)
    if ended:
        write_page(result, gate)
        result = publish_with_notes(result)
    if isinstance(gate, ConfigError):
        show_result(result, form)
        raise gate
    show_result(result, form, gate=gate)
    add_to_job(render_markdown(result, gate))
    if result.exit_code == EXIT_RUN:
        how = "finished, but" if result.state == "finished" else f"{result.state}:"
        fault(f"the run {how} {result.reason or 'no reason given'}")
    if result.exit_code == EXIT_PENDING:
        note(f"{result.reason}, or `evalbeam wait {result.output}`")
    return result.exit_code if gate is None else max(result.exit_code, gate.exit_code, key=_WORSE.index)


def _compare_gate(result: Any) -> Any:
    """Compares a run with the one of its gate; `None` if there is none or the run has no result, or the error."""
    against = (result.manifest["config"].get("gate") or {}).get("against")
    if against is None:
        return None
    from ...compare import compare
    from ...display.console import note

    if result.exit_code not in _WORSE:
        note(f"not compared with {against}: the run has no result")
        return None
    try:
        return compare(against, result.output)
    except ConfigError as error:
        return error
