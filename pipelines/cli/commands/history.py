"""The command `history`: how metrics went from run to run, and where they changed."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.exit_codes import EXIT_PASSED
from .base import add_metrics, reject_arguments

_ABOUT = """\
Follows the metrics of several runs over time, names the runs at which a mean changed, and what else changed
with them. Ends with 0."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("history", help="follow metrics over many runs", description=_ABOUT)
    words = "folders of runs, globs of them such as 'runs/*', or the table bq://project.dataset.summary"
    parser.add_argument("runs", nargs="+", metavar="RUNS", help=words)
    words = "metrics to follow, comma-separated (default: all but latency)"
    add_metrics(parser, words)
    words = "print text (default), or the history table as json"
    parser.add_argument("--as", dest="form", default="text", choices=("text", "json"), metavar="FORM", help=words)
    words = "write the history table to a .jsonl, .csv or .parquet file"
    parser.add_argument("--output", metavar="FILE", help=words)
    words = "write the runs and the lines of their metrics as a self-contained page"
    parser.add_argument("--html", metavar="FILE", help=words)
    parser.set_defaults(handle=_history)


def _history(args: argparse.Namespace, rest: list[str]) -> int:
    import orjson

    from ...display.console import say, width
    from ...display.history_text import render_history
    from ...history import history, write_history

    reject_arguments(rest)
    found = history(args.runs, metrics=args.metrics)
    if args.output is not None:
        write_history(found, args.output)
    if args.html is not None:
        from ...report.runs import write_history_page

        write_history_page(found, args.html)
    if args.form == "json":
        say(orjson.dumps(found.rows, option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        say(render_history(found, width()))
    return EXIT_PASSED
