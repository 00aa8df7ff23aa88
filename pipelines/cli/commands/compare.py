"""The command `compare`: what changed from one run to another."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from ....schemas.errors import ConfigError
from .base import SLICES, reject_arguments

_ABOUT = """\
Compares two runs over the same dataset, instance by instance. Exits with 1 if a metric got worse: if the whole
confidence interval of its mean difference lies beyond the tolerance, over all instances or in a slice."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("compare", help="compare two runs", description=_ABOUT)
    parser.add_argument("before", metavar="BEFORE", help="folder of the first run")
    parser.add_argument("after", metavar="AFTER", help="folder of the second run")
    parser.add_argument("--metrics", metavar="NAMES", help="metrics to compare, comma-separated (default: all)")
    parser.add_argument("--slices", metavar="COLUMN,...", help=f"break the comparison down {SLICES}")
    words = "allowed change of a mean; METRIC=X for one metric; repeatable (default: 0)"
    parser.add_argument("--tolerance", action="append", default=[], metavar="X", help=words)
    parser.add_argument(
        "--confidence", type=_parse_level, default=0.95, metavar="LEVEL", help="confidence level (default: 0.95)"
    )
    words = "write each score that changed to a .jsonl, .csv or .parquet file"
    parser.add_argument("--changes", metavar="FILE", help=words)
    parser.set_defaults(handle=_compare)


def _compare(args: argparse.Namespace, rest: list[str]) -> int:
    from ...compare import changes, compare, write_changes
    from ...config.settings import parse_slices, split_words
    from ...display.console import say, width
    from ...display.differences import render

    reject_arguments(rest)
    metrics = split_words(args.metrics) if args.metrics is not None else ()
    slices = parse_slices(args.slices or "")
    whole, single = _parse_tolerances(args.tolerance)
    level = args.confidence
    comparison = compare(
        args.before, args.after, metrics=metrics, slices=slices, tolerance=whole, tolerances=single, confidence=level
    )
    if args.changes is not None:
        write_changes(changes(args.before, args.after, metrics=metrics), args.changes)
    say(render(comparison, width()))
    return comparison.exit_code


def _parse_tolerances(given: Iterable[str]) -> tuple[float, dict[str, float]]:
    """Returns (tolerance of all metrics, tolerances of single metrics by name)."""
    whole, single = 0.0, {}
    for text in given:
        name, equals, value = text.rpartition("=")
        number = _parse_number(value, "--tolerance", "a number, 0 or more, or METRIC=NUMBER")
        if equals:
            single[name] = number
        else:
            whole = number
    return whole, single


def _parse_level(text: str) -> float:
    return _parse_number(text, "--confidence", "a number between 0 and 1")


def _parse_number(text: str, where: str, allowed: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"found {text!r}", where=where, allowed=allowed) from None
