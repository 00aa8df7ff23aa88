"""The small commands: what there is to measure with, an example to start from, and a look at a run."""

from __future__ import annotations

import argparse
from typing import Any

from .base import PASSED, no_more, show_result


def add(commands: Any) -> None:
    """Adds the commands."""
    metrics = commands.add_parser(
        "metrics", help="list the metrics", description="Lists the metrics, or tells all about one of them."
    )
    metrics.add_argument("name", nargs="?", metavar="NAME", help="name of one metric")
    metrics.set_defaults(handle=_metrics)

    init = commands.add_parser(
        "init", help="write an example", description="Writes eval.yaml with comments, a sample agent and a few rows."
    )
    init.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="where to (default: the current folder)")
    init.add_argument("--force", action="store_true", help="write over files that are there")
    init.set_defaults(handle=_init)

    for name, handle, words, about in _OF_A_RUN:
        parser = commands.add_parser(name, help=words, description=about)
        parser.set_defaults(handle=handle)
        parser.add_argument("output", metavar="OUTPUT", help="folder of the run")
        if handle is _journal:
            words = "first bring the journals of a finished run into one Parquet file each"
            parser.add_argument("--compact", action="store_true", help=words)


def _metrics(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say, width
    from ..catalogue import describe, overview

    no_more(rest)
    say(describe(args.name) if args.name else overview(width()))
    return PASSED


def _init(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say
    from ..init import write_example

    no_more(rest)
    say(write_example(args.folder, args.force))
    return PASSED


def _show(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say
    from ...run.result import EvaluationResult

    no_more(rest)
    show_result(EvaluationResult.load(args.output), say)
    return PASSED


def _journal(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.calls import calls_report
    from ...display.console import say

    no_more(rest)
    if args.compact:
        from ...run.resume import compact_all

        say(f"{compact_all(args.output):,} records in one file each\n")
    say(calls_report(args.output))
    return PASSED


_OF_A_RUN = (
    ("show", _show, "show the summary of a finished run", "Shows a run's summary."),
    ("journal", _journal, "show the calls of a run", "Shows what a run has called so far, from its journal."),
)
