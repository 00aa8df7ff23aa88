"""The command `evalbeam`: what a user types, turned into a configuration, a plan, a run and an exit code.

Importing this module costs milliseconds: everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..schemas.errors import ConfigError, EvalbeamError

if TYPE_CHECKING:
    from ..schemas.config import EvaluationConfig

PASSED, CRITERION, CONFIG, RUN = 0, 1, 2, 3
"""Exit codes."""

_ABOUT = """\
Evaluates an agent over a dataset: calls it for every row (or takes recorded answers), scores what it did and writes
an instances, a summary and an errors table. Runs here, or on any engine of Apache Beam."""
_START = """\
first steps:
  evalbeam init               write an example to the current folder
  evalbeam check eval.yaml    see what a run would do, without a call
  evalbeam run eval.yaml      run it

exit codes:
  0 passed   1 a criterion failed or could not be evaluated   2 the configuration cannot be used   3 the run failed
"""
_RUN_ABOUT = """\
Runs an evaluation and shows its summary. CONFIG is a YAML or JSON file; everything in it can be changed, or given
without a file, by the options below. Options that are not listed go to Apache Beam, for example
--direct_num_workers=4 or --runner=FlinkRunner."""
_RUN_EXAMPLES = """\
examples:
  evalbeam run eval.yaml
  evalbeam run eval.yaml --set agent.max_in_flight=16 --set 'criteria={exact_match: 0.9}' --overwrite
  evalbeam run --dataset data/*.jsonl --agent my_agent:ask --metrics trajectory_exact_match,exact_match --output out
"""
_CHECK_ABOUT = """\
Shows what `evalbeam run` would do with the same arguments: finds every part and file, reads the first rows and tells
which columns the metrics lack and how many calls to expect. Nothing is called and nothing is written."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        argv: Arguments after the program's name; default: those of the process.

    Returns:
        0 passed, 1 a criterion failed or could not be evaluated, 2 the configuration or the command line cannot be
        used, 3 the run failed or was stopped.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given or os.environ.get("EVALBEAM_DEBUG") == "1"
    try:
        if not given:
            _parser().print_help(sys.stderr)
            return CONFIG
        try:
            args, rest = _parser().parse_known_args([a for a in given if a != "--debug"])
        except SystemExit as stop:  # --help and --version
            return int(stop.code or 0)
        args.debug = debug
        return args.handle(args, rest)
    except (KeyboardInterrupt, Exception, SystemExit) as error:
        if debug:
            traceback.print_exc()
        return _failed(error)


def _failed(error: BaseException) -> int:
    """Says in one line what went wrong; returns the exit code."""
    from .console import fault

    text, code = str(error), RUN
    if isinstance(error, ConfigError):
        code = CONFIG
    elif isinstance(error, KeyboardInterrupt):
        text = "stopped by Ctrl-C"
    elif isinstance(error, SystemExit):
        text = f"a module that was imported ended the program (exit code {error.code})"
    elif not isinstance(error, EvalbeamError):
        text = f"internal error: {type(error).__name__}: {text} (--debug shows where)"
    fault(text)
    return code


def _run(args: argparse.Namespace, rest: list[str]) -> int:
    from .console import fault, logs, note, say, stoppable, workers_unheard

    config, flags = _config(args, rest)
    from . import engines, progress
    from .evaluate import run
    from .plan import make_plan

    with logs(args.debug, note):
        options = engines.pipeline_options(flags)
        plan = make_plan(config)
    if engines.is_local(options):
        from .report.html import write_report
        from .resume import paid, state

        hush = engines.has_worker_processes(options) and not args.debug
        hint = "" if plan.recorded else "; the same command goes on with the calls that are left"
        if kept := paid(config.output.path) if not plan.recorded and state(plan) == "unfinished" else 0:
            note(f"{config.output.path} holds an unfinished run: {kept} calls are paid for and not made again")
        with workers_unheard(hush), stoppable(hint):
            shown = progress.shown(sys.stderr, config.dataset.limit, config.trials, not plan.recorded)
            with shown as bar, logs(args.debug, bar.say):
                result = run(plan, options)
        try:
            write_report(result)
        except OSError as error:
            note(f"the report could not be written: {error}")
    else:
        with stoppable(), logs(args.debug, note, "apache_beam.runners"):
            result = run(plan, options)
    _show_result(result, say)
    if result.exit_code == RUN:
        fault(f"the run {result.state}: {result.manifest.get('reason') or 'no reason given'}")
    return result.exit_code


def _cancel(args: argparse.Namespace, rest: list[str]) -> int:
    from .console import say
    from .resume import cancel

    _no_more(rest)
    cancel(args.output)
    say(f"{args.output}: no more calls are made; the run ends with the tables it has")
    return 0


def _journal(args: argparse.Namespace, rest: list[str]) -> int:
    from .console import say
    from .report.calls import calls_report

    _no_more(rest)
    say(calls_report(args.output))
    return 0


def _check(args: argparse.Namespace, rest: list[str]) -> int:
    from .console import fault, logs, note, say, width

    config, flags = _config(args, rest)
    from . import engines
    from .check import check

    with logs(args.debug, note):
        engines.pipeline_options(flags)
        found = check(config)
    say(found.render(width()))
    for problem in found.problems:
        fault(problem)
    return CONFIG if found.problems else PASSED


def _metrics(args: argparse.Namespace, rest: list[str]) -> int:
    from .catalogue import describe, overview
    from .console import say, width

    _no_more(rest)
    say(describe(args.name) if args.name else overview(width()))
    return PASSED


def _init(args: argparse.Namespace, rest: list[str]) -> int:
    from .console import say
    from .init import write_example

    _no_more(rest)
    say(write_example(args.folder, args.force))
    return PASSED


def _show(args: argparse.Namespace, rest: list[str]) -> int:
    from .console import say
    from .result import EvaluationResult

    _no_more(rest)
    _show_result(EvaluationResult.load(args.output), say)
    return PASSED


def _show_result(result: Any, say: Any) -> None:
    from .console import width
    from .report.terminal import render

    say(render(result, width()))


def _config(args: argparse.Namespace, rest: list[str]) -> tuple[EvaluationConfig, list[str]]:
    """The configuration a command line describes, and the options that are left for Beam."""
    from .settings import assemble, split

    source, flags = split(rest)
    return assemble(source, _settings(args)), flags


def _settings(args: argparse.Namespace) -> list[tuple[str, str, Any]]:
    found: list[tuple[str, str, Any]] = list(args.settings or ())
    if args.dataset:
        found.append(("--dataset", "dataset.path", args.dataset[0] if len(args.dataset) == 1 else args.dataset))
    if args.overwrite:
        found.append(("--overwrite", "output.overwrite", True))
    if args.resume_anyway:
        found.append(("--resume-anyway", "output.resume_anyway", True))
    return found


def _no_more(rest: list[str]) -> None:
    if rest:
        raise ConfigError(f"unknown argument {rest[0]!r}", allowed="see --help")


class _Parser(argparse.ArgumentParser):
    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see {self.prog} --help)")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"evalbeam {version('evalbeam')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="evalbeam", description=_ABOUT, epilog=_START)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and end")
    _add_debug(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    usage = "evalbeam {} [CONFIG] [options] [Beam options]"
    run = commands.add_parser(
        "run", help="run an evaluation", usage=usage.format("run"), description=_RUN_ABOUT, epilog=_RUN_EXAMPLES
    )
    check = commands.add_parser(
        "check", help="show what a run would do", usage=usage.format("check"), description=_CHECK_ABOUT
    )
    for command, handle in ((run, _run), (check, _check)):
        command.set_defaults(handle=handle)
        _add_settings(command)

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

    others = [commands.add_parser(name, help=words, description=about) for name, _, words, about in _OF_A_RUN]
    for parser_, (_, handle, _, _) in zip(others, _OF_A_RUN, strict=True):
        parser_.set_defaults(handle=handle)
        parser_.add_argument("output", metavar="OUTPUT", help="folder of the run")
    for command in (run, check, metrics, init, *others):
        _add_debug(command)
    return parser


_OF_A_RUN = (
    ("show", _show, "show the summary of a finished run", "Shows a run's summary."),
    ("journal", _journal, "show the calls of a run", "Shows what a run has called so far, from its journal."),
    ("cancel", _cancel, "stop the calls of a run", "Stops a run's calls; it ends with the tables it has."),
)


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="show tracebacks and all logs (or EVALBEAM_DEBUG=1)")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    def setting(flag: str, key: str, metavar: str, words: str) -> None:
        from .settings import reader

        parser.add_argument(
            flag, action="append", dest="settings", metavar=metavar, type=reader(flag, key), help=f"{words} ({key})"
        )

    words = "files, folders or globs of JSONL, CSV or Parquet (dataset.path)"
    parser.add_argument("--dataset", nargs="+", action="extend", metavar="PATH", help=words)
    setting("--agent", "agent.target", "MODULE:NAME", "the agent; left out, the rows carry the answers")
    setting("--metrics", "metrics", "NAME,...", "names, or module:name; `evalbeam metrics` lists them")
    setting("--output", "output.path", "FOLDER", "where the tables go")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run (output.overwrite)")
    text = "go on with an unfinished run although its agent has changed (output.resume_anyway)"
    parser.add_argument("--resume-anyway", action="store_true", help=text)
    setting("--format", "output.format", "FORMAT", "parquet, jsonl or csv")
    setting("--trials", "trials", "N", "how often the agent runs on each row")
    setting("--slices", "slices", "COLUMN,...", "break the summary down by columns; a+b by both at once")
    setting("--limit", "dataset.limit", "N", "at most N rows, chosen by hash")
    setting("--sample", "dataset.sample", "SHARE", "a share of the rows, chosen by hash: 0.1 is a tenth")
    parser.add_argument(
        "--set",
        action="append",
        dest="settings",
        metavar="KEY=VALUE",
        type=reader_of_set,
        help="set any key of the configuration; KEY is dotted, VALUE is YAML; may be repeated",
    )


def reader_of_set(text: str) -> tuple[str, str, Any]:
    """(option, key, value) of a `--set`.

    Raises:
        ConfigError: It is not KEY=VALUE, or the value is no YAML.
    """
    from .settings import reader

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"found {text!r}", where="--set", allowed="KEY=VALUE, such as dataset.limit=100")
    return reader(f"--set {key.strip()}", key.strip())(value)


if __name__ == "__main__":
    sys.exit(main())
