"""The commands `cancel` and `wait` for active runs, on this machine or on a remote engine."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.errors import ConfigError
from ....schemas.exit_codes import EXIT_PASSED, EXIT_PENDING
from .base import add_form, reject_arguments, show_end
from .run import execute, planning, split_rest

_CANCEL = """\
Stops the calls of a run, on whatever engine it is active: no call is started, calls in flight may finish, and the run
writes the tables of the rows it has. With --now the engine cancels the job immediately, without tables. Starting the
same run again resumes it with the remaining calls."""
_WAIT = """\
Waits for a run on a remote engine and exits as `evalbeam run` would: with the exit code of its manifest, or with 3 if
its job ended without one. If the run is pending, waits for its batches, takes their answers in and finishes it, with
the configuration of the run and the Beam options given here."""


def add(commands: Any) -> None:
    """Adds the commands."""
    cancel = commands.add_parser("cancel", help="stop the calls of a run", description=_CANCEL)
    cancel.add_argument("--now", action="store_true", help="cancel the job immediately, without tables")
    wait = commands.add_parser("wait", help="wait for the end of a run", description=_WAIT)
    words = "maximum time to wait, each time for the run or for its batches"
    wait.add_argument("--timeout", type=_parse_seconds, metavar="SECONDS", help=words)
    wait.set_defaults(no_wait=False, workers=None)
    add_form(wait)
    for command, handle in ((cancel, _cancel), (wait, _wait)):
        command.set_defaults(handle=handle)
        command.add_argument("output", metavar="OUTPUT", help="folder of the run")


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds >= 0:
        return seconds
    raise ConfigError(f"found {text!r}", where="--timeout", allowed="seconds, 0 or more")


def _cancel(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say
    from ...run.lifecycle import cancel

    reject_arguments(rest)
    cancel(args.output, now=args.now)
    ends = "start it again to resume" if args.now else "the run writes the tables of the rows it has"
    say(f"{args.output}: no more calls are made; {ends}")
    return EXIT_PASSED


def _wait(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import stoppable
    from ...run.wait import wait

    source, flags = split_rest(args, rest)
    reject_arguments([source] if source else [])
    with stoppable():
        result = wait(args.output, args.timeout)
    if result.exit_code == EXIT_PENDING:
        return _finish(args, flags)
    return show_end(result, args.form, ended=_is_left(result))


def _is_left(result: Any) -> bool:
    """Whether nobody waited for the start that ended this run: its page is not written, and no sink has it."""
    from ...run.result import SINKS
    from ...runners import lease

    found = lease.latest(result.output)
    return found is not None and not found.released and SINKS not in result.manifest


def _finish(args: argparse.Namespace, flags: list[str]) -> int:
    """Waits for the batches of a pending run, and runs it again until it is pending no more; returns the exit code."""
    from ...config.settings import build
    from ...display.console import note, stoppable
    from ...run.batches import wait_for_answers
    from ...run.lifecycle import config_at
    from ...run.result import EvaluationResult

    code, config = EXIT_PENDING, build(config_at(args.output, "wait"), (), None, args.output)
    with planning(args, config, flags) as (plan, options):
        while code == EXIT_PENDING:
            note(f"{args.output}: waiting for batches")
            with stoppable():
                if not wait_for_answers(plan, args.timeout):
                    return show_end(EvaluationResult.load(args.output), args.form)
            code = execute(args, plan, options, "the same command")
    return code
