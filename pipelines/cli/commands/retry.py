"""The commands `retry` and `rescore`: a finished run once more, with what it has paid for."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from ....schemas.errors import ConfigError
from .base import add_form
from .run import add_settings, execute, planning, retry, settings_of, split_rest

_RETRY = """\
Calls again what failed in a finished run, of the agent and of judges, for whatever reason, and writes all tables
anew. Answers are kept. The configuration is the one of the run; the options below change it. A retry that was killed or
stopped is resumed by the same command."""
_RESCORE = """\
Scores the answers of a finished run again with other metrics, criteria, slices or judges, and replaces its tables. No
agent is called; judges are asked only what they were not asked before. CONFIG is a YAML or JSON file; without it the
configuration is the one of the run; the options below change it."""
_EXAMPLES = """\
examples:
  evalbeam rescore out eval.yaml
  evalbeam rescore out --set 'criteria={exact_match: 0.8}'
"""


def add(commands: Any) -> None:
    """Adds the commands."""
    again = commands.add_parser(
        "retry", help="call the failed rows of a finished run again", usage=_usage("retry"), description=_RETRY
    )
    other = commands.add_parser(
        "rescore",
        help="score the answers of a finished run again",
        usage=_usage("rescore FOLDER [CONFIG]"),
        description=_RESCORE,
        epilog=_EXAMPLES,
    )
    for command, handle in ((again, _retry), (other, _rescore)):
        command.set_defaults(handle=handle, no_wait=False)
        command.add_argument("folder", metavar="FOLDER", help="output folder of the run")
        add_settings(command)
        add_form(command)


def _usage(command: str) -> str:
    return f"evalbeam {command if ' ' in command else command + ' FOLDER'} [options] [Beam options]"


def _retry(args: argparse.Namespace, rest: list[str]) -> int:
    config, flags = _config(args, rest, False)
    return retry(args, config, flags, f"`evalbeam retry {args.folder}`")


def _rescore(args: argparse.Namespace, rest: list[str]) -> int:
    config, flags = _config(args, rest, True)
    with planning(args, config, flags) as (plan, options):
        return execute(args, replace(plan, purpose="rescore"), options, "the same command")


def _config(args: argparse.Namespace, rest: list[str], with_file: bool) -> tuple[Any, list[str]]:
    """The configuration of a file, or of the run, with its folder as output; and Beam's options."""
    from ...config.files import load
    from ...config.settings import build
    from ...run.lifecycle import config_at

    source, flags = split_rest(args, rest)
    if source is not None and not with_file:
        raise ConfigError(f"unexpected argument {source!r}", allowed="evalbeam retry FOLDER, then options")
    data = config_at(args.folder, "FOLDER") if source is None else load(source)
    settings = [*settings_of(args), ("FOLDER", "output.path", args.folder), ("FOLDER", "output.overwrite", False)]
    return build(data, settings, args.run_date, source or args.folder), flags
