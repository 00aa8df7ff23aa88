"""`evalbeam cancel` and `evalbeam wait`: runs that go on, here or on an engine elsewhere."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.errors import ConfigError
from .base import PASSED, no_more, show_end

_CANCEL = """\
Stops a run's calls, wherever it goes on: none is started any more, those in flight may end, and the run writes the
tables it has. With --now its engine ends it at once, without tables. The same command then goes on with the rest."""
_WAIT = """\
Waits for a run that goes on elsewhere, and ends as `evalbeam run` would: with the exit code of its manifest, or with 3
where its job ended without one."""


def add(commands: Any) -> None:
    """Adds the commands."""
    cancel = commands.add_parser("cancel", help="stop the calls of a run", description=_CANCEL)
    cancel.add_argument("--now", action="store_true", help="end the run on its engine at once, without tables")
    wait = commands.add_parser("wait", help="wait for the end of a run", description=_WAIT)
    wait.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="wait at most so long")
    for command, handle in ((cancel, _cancel), (wait, _wait)):
        command.set_defaults(handle=handle)
        command.add_argument("output", metavar="OUTPUT", help="folder of the run")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if seconds >= 0:
        return seconds
    raise ConfigError(f"found {text!r}", where="--timeout", allowed="seconds, 0 or more")


def _cancel(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say
    from ...run.resume import cancel

    no_more(rest)
    cancel(args.output, now=args.now)
    ends = "the same command goes on with the rest" if args.now else "the run ends with the tables it has"
    say(f"{args.output}: no more calls are made; {ends}")
    return PASSED


def _wait(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import stoppable
    from ...run.wait import wait

    no_more(rest)
    with stoppable():
        return show_end(wait(args.output, args.timeout))
