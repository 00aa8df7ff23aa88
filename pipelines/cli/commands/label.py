"""The command `label`: which rows people should label."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.exit_codes import EXIT_PASSED
from .base import add_metrics, reject_arguments

_ABOUT = """\
Writes the rows of a finished run that people should label, as CSV and as JSONL, without what the judge said of them.
Fill in the columns METRIC/label, name the file in `labels.path`, and score the run again with `evalbeam rescore`: the
summary then has means that the labels correct, and the table `validity` says how well the judge agrees with people."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("label", help="choose rows that people should label", description=_ABOUT)
    parser.add_argument("folder", metavar="FOLDER", help="output folder of the run")
    parser.add_argument("--n", type=int, default=200, metavar="ROWS", help="number of rows (default: 200)")
    words = "metrics to label, comma-separated (default: all that ask a judge)"
    add_metrics(parser, words)
    words = "path of the files without .csv and .jsonl (default: FOLDER/to_label)"
    parser.add_argument("--output", metavar="PATH", help=words)
    parser.set_defaults(handle=_label)


def _label(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import say
    from ...label import choose_labels

    reject_arguments(rest)
    chosen = choose_labels(args.folder, args.n, metrics=args.metrics or (), output=args.output)
    columns = ", ".join(f'"{name}": "{name}/label"' for name in chosen.metrics)
    say(f"{chosen.rows:,} rows of {chosen.strata} strata in {' and '.join(chosen.files)}")
    say(f"labels: {{path: {chosen.files[0]}, columns: {{{columns}}}, probability: probability}}")
    return EXIT_PASSED
