"""The command `plan`: what a finished run says of the next one."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.exit_codes import EXIT_PASSED
from .base import add_metrics, parse_number, reject_arguments

_ABOUT = """\
Says from a finished run, without any call, which gain a run of its size can show with a probability of 80 %, how many
rows a margin needs, how much of the variance comes from rows, trials and votes of judges, and which of them lowers it
most for more money. Prices are those of `prices` in the run's configuration."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("plan", help="plan the next run from a finished one", description=_ABOUT)
    parser.add_argument("folder", metavar="FOLDER", help="output folder of the run")
    words = "metrics that are to decide, comma-separated (default: all that are not measured)"
    add_metrics(parser, words)
    words = "the difference that matters, in the unit of the metrics"
    parser.add_argument("--margin", metavar="X", help=words)
    words = "level of the comparison (default: 0.95)"
    parser.add_argument("--confidence", default="0.95", metavar="LEVEL", help=words)
    words = "what another row costs beside its calls, in the currency of prices (default: 0)"
    parser.add_argument("--row-price", default="0", metavar="X", help=words)
    parser.set_defaults(handle=_plan)


def _plan(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say, width
    from ...display.next_run import render
    from ...power import plan_next

    reject_arguments(rest)
    found = plan_next(
        args.folder,
        metrics=args.metrics or (),
        margin=None if args.margin is None else parse_number(args.margin, "--margin", "a number above 0"),
        confidence=parse_number(args.confidence, "--confidence", "a number between 0 and 1"),
        row_price=parse_number(args.row_price, "--row-price", "a number, 0 or more"),
    )
    say(render(found, width()))
    return EXIT_PASSED
