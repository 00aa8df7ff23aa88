"""The commands `metrics`, `init`, `show` and `journal`."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.exit_codes import EXIT_PASSED
from .base import add_form, reject_arguments, show_result


def add(commands: Any) -> None:
    """Adds the commands."""
    metrics = commands.add_parser(
        "metrics", help="list the metrics", description="Lists the metrics, or describes one of them."
    )
    metrics.add_argument("name", nargs="?", metavar="NAME", help="name of one metric")
    metrics.set_defaults(handle=_metrics)

    init = commands.add_parser(
        "init", help="write an example", description="Writes eval.yaml with comments, a sample agent and a few rows."
    )
    init.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER", help="target folder (default: the current folder)"
    )
    init.add_argument("--force", action="store_true", help="overwrite existing files")
    init.set_defaults(handle=_init)

    for name, handle, words, about in _OF_A_RUN:
        parser = commands.add_parser(name, help=words, description=about)
        parser.set_defaults(handle=handle)
        parser.add_argument("output", metavar="OUTPUT", help="folder of the run")
        if handle is _journal:
            words = "first compact each journal of a finished run into one Parquet file"
            parser.add_argument("--compact", action="store_true", help=words)
        else:
            words = "show this row of the instances table instead, with all its columns"
            parser.add_argument("instance", nargs="?", metavar="INSTANCE_ID", help=words)
            add_form(parser)
            parser.add_argument("--all", action="store_true", help="show every criterion, slice and failure group")


def _metrics(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say, width
    from ..catalogue import describe, overview

    reject_arguments(rest)
    say(describe(args.name) if args.name else overview(width()))
    return EXIT_PASSED


def _init(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say
    from ..init import write_example

    reject_arguments(rest)
    say(write_example(args.folder, args.force))
    return EXIT_PASSED


def _show(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say, width
    from ...display.row_text import render_row
    from ...run.result import EvaluationResult

    reject_arguments(rest)
    result = EvaluationResult.load(args.output)
    if args.instance is not None:
        say(render_row(result, args.instance, width()))
    else:
        show_result(result, args.form, args.all)
    return EXIT_PASSED


def _journal(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.calls import calls_report
    from ...display.console import say

    reject_arguments(rest)
    if args.compact:
        from ...run.lifecycle import compact_all

        say(f"compacted {compact_all(args.output):,} records\n")
    say(calls_report(args.output))
    return EXIT_PASSED


_OF_A_RUN = (
    ("show", _show, "show the summary of a finished run", "Shows a run's summary, or one of its rows."),
    ("journal", _journal, "show the calls of a run", "Shows the calls that a run has made so far, from its journal."),
)
