"""The command `compare`: what changed from one run to another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from .base import SLICES, add_form, add_metrics, add_to_job, parse_number, reject_arguments

_ABOUT = """\
Compares two runs over the same dataset, instance by instance. Ends with 0 if every metric that decides is shown to be
better, or to be worse by less than its margin; with 1 if one is shown to be worse, over all instances or in a slice;
with 4 if neither is shown. What is not given is taken from `gate` in the second run's configuration."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("compare", help="compare two runs", description=_ABOUT)
    parser.add_argument("before", metavar="BEFORE", help="folder of the first run, the baseline")
    parser.add_argument("after", metavar="AFTER", help="folder of the second run")
    words = "metrics that decide, comma-separated (default: all that are not measured)"
    add_metrics(parser, words)
    parser.add_argument("--slices", metavar="COLUMN,...", help=f"break the comparison down {SLICES}")
    words = "loss that counts as none; METRIC=X for one metric; repeatable (default: 0)"
    parser.add_argument("--margin", action="append", default=[], metavar="X", help=words)
    words = "lowest share of the first run's scores that the second run must have as well"
    parser.add_argument("--min-coverage", type=_parse_share, metavar="SHARE", help=words)
    words = "pass or fail: what an inconclusive comparison is (default: exit code 4)"
    parser.add_argument("--inconclusive", metavar="HOW", help=words)
    words = "means that people's labels correct decide, for metrics with labels in both runs"
    parser.add_argument("--corrected", action="store_true", default=None, help=words)
    words = "level of the intervals and tests (default: 0.95)"
    parser.add_argument("--confidence", type=_parse_level, metavar="LEVEL", help=words)
    words = "write the comparison to a .jsonl, .csv or .parquet file"
    parser.add_argument("--output", metavar="FILE", help=words)
    words = "write each score that changed to a .jsonl, .csv or .parquet file"
    parser.add_argument("--changes", metavar="FILE", help=words)
    words = "write the comparison as a page that needs no network, with the rows that changed"
    parser.add_argument("--html", metavar="FILE", help=words)
    add_form(parser)
    parser.set_defaults(handle=_compare)


def _compare(args: argparse.Namespace, rest: list[str]) -> int:
    from ...compare import changes, compare, write_changes, write_comparison
    from ...config.settings import parse_slices
    from ...display.console import say, width
    from ...display.exports import render_comparison_as
    from ...report.comparison import write_comparison_page

    reject_arguments(rest)
    margin, margins = _parse_margins(args.margin)
    comparison = compare(
        args.before,
        args.after,
        metrics=args.metrics,
        slices=None if args.slices is None else parse_slices(args.slices),
        margin=margin,
        margins=margins,
        min_coverage=args.min_coverage,
        inconclusive=args.inconclusive,
        corrected=args.corrected,
        confidence=args.confidence,
    )
    if args.output is not None:
        write_comparison(comparison, args.output)
    if args.changes is not None:
        write_changes(changes(args.before, args.after, metrics=comparison.gate.metrics or ()), args.changes)
    if args.html is not None:
        write_comparison_page(comparison, args.html)
    say(render_comparison_as(args.form, comparison, width()))
    add_to_job(render_comparison_as("markdown", comparison, width()))
    return comparison.exit_code


def _parse_margins(given: Iterable[str]) -> tuple[float | None, dict[str, float]]:
    """Returns (margin of all metrics, margins of single metrics by name)."""
    whole, single = None, {}
    for text in given:
        name, equals, value = text.rpartition("=")
        number = parse_number(value, "--margin", "a number, 0 or more, or METRIC=NUMBER")
        if equals:
            single[name] = number
        else:
            whole = number
    return whole, single


def _parse_level(text: str) -> float:
    return parse_number(text, "--confidence", "a number between 0 and 1")


def _parse_share(text: str) -> float:
    return parse_number(text, "--min-coverage", "a number between 0 and 1")
