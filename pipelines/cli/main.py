"""The command `evalbeam`: parses the arguments, runs the command and returns its exit code.

Heavy imports stay inside the commands that need them, so that importing this module takes milliseconds.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from ...schemas.errors import ConfigError, ConfigErrors, EvalbeamError, require_system
from ...schemas.exit_codes import EXIT_CONFIG, EXIT_RUN
from ...transforms.runtime.collector import relax_collector
from ..display.console import open_streams
from ..runners.ending import end_with
from .commands import (
    adk,
    compare,
    completion,
    grounding,
    history,
    info,
    label,
    lifecycle,
    plan,
    publish,
    rapid,
    retry,
    run,
    view,
)

COMMANDS = (
    run,
    retry,
    publish,
    info,
    view,
    compare,
    history,
    label,
    plan,
    lifecycle,
    adk,
    rapid,
    grounding,
    completion,
)
"""Modules of the commands, in the order of the help."""

_ABOUT = """\
Evaluates an agent over a dataset: calls it for every row (or takes recorded answers), scores the answers and writes
an instances, a summary and an errors table. Runs on this machine or on any Apache Beam runner."""
_START = """\
first steps:
  evalbeam init               write an example to the current folder
  evalbeam check eval.yaml    show what a run would do, without any call
  evalbeam run eval.yaml      run it

exit codes:
  0 passed   1 a criterion failed or could not be evaluated   2 invalid configuration or command line
  3 the run failed, was stopped, or has no result: no answer, no score, or a metric failed on every row
  4 a comparison, or a criterion with a confidence, is inconclusive
  5 the run is pending: its calls are handed over in batches
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments after the program's name; default: those of the process.

    Returns:
        0 if the run passed, 1 if a criterion failed or could not be evaluated, 2 if the configuration or the command
        line is invalid, 3 if the run failed, was stopped or has no result, 4 if a comparison or a criterion is
        inconclusive, 5 if the run is pending.
    """
    open_streams()
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given or os.environ.get("EVALBEAM_DEBUG") == "1"
    try:
        require_system()
        if not given:
            make_parser().print_help(sys.stderr)
            return EXIT_CONFIG
        try:
            args, rest = make_parser().parse_known_args([a for a in given if a != "--debug"])
        except SystemExit as stop:  # --help and --version
            return int(stop.code or 0)
        args.debug = debug
        return args.handle(args, rest)
    except (KeyboardInterrupt, Exception, SystemExit) as error:
        if debug:
            traceback.print_exc()
        return _report_error(error)


def _report_error(error: BaseException) -> int:
    """Writes the error on one line, each mistake of a configuration on its own; returns the exit code."""
    from ..display.console import fault

    text, code = str(error), EXIT_RUN
    if isinstance(error, ConfigError):
        code = EXIT_CONFIG
    elif isinstance(error, KeyboardInterrupt):
        text = "stopped by Ctrl-C"
    elif isinstance(error, SystemExit):
        text = f"an imported module called sys.exit (exit code {error.code})"
    elif not isinstance(error, EvalbeamError):
        text = f"internal error: {type(error).__name__}: {text} (use --debug for the traceback)"
    for line in map(str, error.errors) if isinstance(error, ConfigErrors) else [text]:
        fault(line)
    return code


class _Parser(argparse.ArgumentParser):
    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        said = sys.exc_info()[1]
        if said is not None and isinstance(said.__context__, ConfigError):  # of a `type`: argparse would hide its text
            raise said.__context__ from None
        raise ConfigError(f"{message} (see {self.prog} --help)")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"evalbeam {version('evalbeam')}")
        parser.exit()


@functools.cache
def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(prog="evalbeam", description=_ABOUT, epilog=_START)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    parser.set_defaults(parser=parser)
    for module in COMMANDS:
        module.add(commands)
    for command in (parser, *commands.choices.values()):
        words = "show tracebacks and all logs (or set EVALBEAM_DEBUG=1)"
        command.add_argument("--debug", action="store_true", help=words)
    return parser


def command() -> NoReturn:
    """Runs the program `evalbeam`; ends the process with its exit code."""
    relax_collector()  # the imports of a run alone would start the collector a hundred times: 0.3 s
    end_with(lambda: main(), EXIT_RUN)


if __name__ == "__main__":
    command()
