"""The command `evalbeam`: what a user types, turned into a configuration, a plan, a run and an exit code.

Importing this module costs milliseconds: everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from ...schemas.errors import ConfigError, EvalbeamError
from ..display.console import open_streams
from .commands import adk, compare, grounding, rapid, run
from .commands import info as small
from .commands import lifecycle as going
from .commands.base import CONFIG, RUN

COMMANDS = (run, small, compare, going, adk, rapid, grounding)
"""Where the commands stand, in the order of the help."""

_ABOUT = """\
Evaluates an agent over a dataset: calls it for every row (or takes recorded answers), scores what it did and writes
an instances, a summary and an errors table. Runs here, or on any engine of Apache Beam."""
_START = """\
first steps:
  evalbeam init               write an example to the current folder
  evalbeam check eval.yaml    see what a run would do, without a call
  evalbeam run eval.yaml      run it

exit codes:
  0 passed   1 a criterion failed or could not be evaluated   2 the configuration cannot be used   3 the run failed
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        argv: Arguments after the program's name; default: those of the process.

    Returns:
        0 passed, 1 a criterion failed or could not be evaluated, 2 the configuration or the command line cannot be
        used, 3 the run failed or was stopped.
    """
    open_streams()
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given or os.environ.get("EVALBEAM_DEBUG") == "1"
    try:
        if not given:
            make_parser().print_help(sys.stderr)
            return CONFIG
        try:
            args, rest = make_parser().parse_known_args([a for a in given if a != "--debug"])
        except SystemExit as stop:  # --help and --version
            return int(stop.code or 0)
        args.debug = debug
        return args.handle(args, rest)
    except (KeyboardInterrupt, Exception, SystemExit) as error:
        if debug:
            traceback.print_exc()
        return _failed(error)


def _failed(error: BaseException) -> int:
    """Says in one line what went wrong; returns the exit code."""
    from ..display.console import fault

    text, code = str(error), RUN
    if isinstance(error, ConfigError):
        code = CONFIG
    elif isinstance(error, KeyboardInterrupt):
        text = "stopped by Ctrl-C"
    elif isinstance(error, SystemExit):
        text = f"a module that was imported ended the program (exit code {error.code})"
    elif not isinstance(error, EvalbeamError):
        text = f"internal error: {type(error).__name__}: {text} (--debug shows where)"
    fault(text)
    return code


class _Parser(argparse.ArgumentParser):
    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
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
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    for command in (parser, *commands.choices.values()):
        words = "show tracebacks and all logs (or EVALBEAM_DEBUG=1)"
        command.add_argument("--debug", action="store_true", help=words)
    return parser


def command() -> NoReturn:
    """The program `evalbeam`: `main`, and an end of the process that nothing can delay or spoil.

    Native threads of client libraries (gRPC, Arrow) now and then abort a process whose interpreter is taken apart
    around them; by then everything has been written, so the process ends before that. All other handlers of its end
    run first.
    """
    code = RUN

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)

    atexit.register(end)  # the first to be registered is the last to run
    code = main()
    sys.exit(code)


if __name__ == "__main__":
    command()
