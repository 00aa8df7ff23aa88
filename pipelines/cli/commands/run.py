"""The commands `run` and `check`, which take the same arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....schemas.errors import ConfigError, Mistakes
from ....schemas.exit_codes import EXIT_CONFIG, EXIT_PASSED
from ....transforms.io import storage
from ...config.placeholders import make_run_id
from .base import SLICES, add_form, show_end

if TYPE_CHECKING:
    from ....schemas.config.evaluation import EvaluationConfig
    from ...display.progress import Progress
    from ...run.plan import Plan

_RUN_ABOUT = """\
Runs an evaluation and shows its summary. CONFIG is a YAML or JSON file; the options below override it or replace it.
Unlisted options are passed to Apache Beam, for example --runner=FlinkRunner --flink_master=localhost:8081."""
_RUN_EXAMPLES = """\
examples:
  evalbeam run eval.yaml
  evalbeam run eval.yaml --set agent.max_in_flight=16 --set 'criteria={exact_match: 0.9}' --overwrite
  evalbeam run --dataset data/*.jsonl --agent my_agent:ask --metrics trajectory_exact_match,exact_match --output out
"""
_CHECK_ABOUT = """\
Shows what `evalbeam run` would do with the same arguments: finds every part and file, reads the first rows, and reports
missing columns and the expected number of calls. Nothing is called and nothing is written."""


def add(commands: Any) -> None:
    """Adds the commands."""
    usage = "evalbeam {} [CONFIG] [options] [Beam options]"
    run = commands.add_parser(
        "run", help="run an evaluation", usage=usage.format("run"), description=_RUN_ABOUT, epilog=_RUN_EXAMPLES
    )
    check = commands.add_parser(
        "check", help="show what a run would do", usage=usage.format("check"), description=_CHECK_ABOUT
    )
    words = "submit the run and exit (DataflowRunner); `evalbeam wait` follows it"
    run.add_argument("--no-wait", action="store_true", help=words)
    words = "if the run has finished, call its failed rows again, as `evalbeam retry` does"
    run.add_argument("--retry-failed", action="store_true", help=words)
    add_form(run)
    for command, handle in ((run, _run), (check, _check)):
        command.set_defaults(handle=handle)
        add_settings(command)


def _run(args: argparse.Namespace, rest: list[str]) -> int:
    from ...display.console import note

    run_id = make_run_id()
    config, flags = config_of(args, rest, run_id)
    again = "the same command"
    if run_id in config.output.path:
        note(f"the folder of this run is {config.output.path}")
        again = f"`evalbeam run ... --output {config.output.path}`"
    if args.retry_failed:
        return retry(args, config, flags, again)
    with planning(args, config, flags) as (plan, options):
        return execute(args, plan, options, again)


def retry(args: argparse.Namespace, config: EvaluationConfig, flags: list[str], again: str) -> int:
    """Calls again what failed in a finished run; an unfinished one is resumed. Returns the exit code."""
    from ...display.console import note
    from ...run.lifecycle import nothing_to_retry
    from ...run.result import EvaluationResult

    if nothing_to_retry(config.output.path):
        note(f"{config.output.path}: no call failed, so there is nothing to retry")
        return show_end(EvaluationResult.load(config.output.path), args.form)
    with planning(args, config, flags) as (plan, options):
        return execute(args, replace(plan, purpose="retry"), options, again)


@contextmanager
def planning(
    args: argparse.Namespace, config: EvaluationConfig, flags: list[str], found: Mistakes | None = None
) -> Iterator[tuple[Plan, Any]]:
    """Yields the plan of a configuration, and Beam's options; `found` as of `make_plan`.

    Worker processes that the options ask for are forked before the plan is made. So they share what is imported here,
    and have nothing of the user's code: no agent, no client and no thread.
    """
    from ...runners.beam_import import import_beam

    import_beam()  # first: what follows imports all of it otherwise
    from ...display.console import logs, note
    from ...run import evaluate  # noqa: F401  (the steps, which the workers share)
    from ...run.build import make_plan
    from ...runners import options as engines
    from ...runners.workers import forked_workers

    with logs(args.debug, note):
        options = engines.pipeline_options(flags)  # first: its import registers what `make_plan` looks up
    asked = engines.processes(options) if engines.has_worker_processes(options) else 1
    local = all(map(storage.is_local, (config.output.path, *config.dataset.paths)))
    with forked_workers(asked if local else 1, quiet=not args.debug):
        with logs(args.debug, note):
            plan = make_plan(config, found=found)
        yield plan, options


def execute(args: argparse.Namespace, plan: Plan, options: Any, again: str) -> int:
    """Runs a plan, shows its progress and its end; returns the exit code.

    Args:
        args: Arguments of the command.
        plan: What to run.
        options: Beam's options.
        again: The command that resumes the run, for messages.
    """
    from ....transforms.calls.loop import Loop
    from ...display.console import logs, note, one_line, silence_workers, stoppable
    from ...run.evaluate import run, submit
    from ...runners import options as engines
    from ...runners.workers import forked_workers

    path = plan.config.output.path
    count = _fit_workers(args, plan, options)
    hush = engines.has_worker_processes(options) and not args.debug
    hint = f"; {again} resumes with the remaining calls" if plan.calls else ""
    if args.no_wait:
        submit(plan, options, note)
        note(f"submitted; follow it with `evalbeam wait {path}`")
        return EXIT_PASSED
    with (
        forked_workers(count, quiet=hush),  # before any thread is there
        silence_workers(hush),
        stoppable(hint, Loop.end),
        _show_progress(plan, options) as bar,
        logs(args.debug, bar.say),
    ):
        result = run(plan, options, lambda text: bar.say(f"evalbeam: {one_line(text)}"))
    return show_end(result, args.form, ended=True)


def _show_progress(plan: Plan, options: Any) -> AbstractContextManager[Progress]:
    from ...display import progress, remote_progress
    from ...display.costs import name_currency
    from ...runners import options as engines

    config, live, judged = plan.config, plan.calls, bool(plan.judges)
    if not engines.calls_from_here(options):
        return remote_progress.show_remote_progress(sys.stderr, config.output.path, live, judged=judged)
    limit, unit = config.dataset.limit, name_currency(config)
    return progress.show_progress(sys.stderr, limit, config.trials, live, judged, unit)


def _fit_workers(args: argparse.Namespace, plan: Plan, options: Any) -> int:
    """Uses worker processes if they pay and none were asked for; returns how many to fork, 1 for none.

    Forked processes share nothing that breaks: there is no agent, and so no client and no connection.
    """
    from ...display.console import note
    from ...runners import options as engines
    from ...runners.workers import fitting_workers

    paths = (plan.config.output.path, *(file.path for file in plan.files))
    if args.workers is not None or plan.calls or plan.config.dataset.limit is not None:
        return 1
    if not all(map(storage.is_local, paths)) or not engines.in_this_process(options):
        return 1
    count = fitting_workers(sum(file.size for file in plan.files))
    if count > 1:
        note(f"{count} worker processes share the rows (--workers 1: none)")
        engines.use_workers(options, count)
    return count


def _check(args: argparse.Namespace, rest: list[str]) -> int:
    from ...runners.beam_import import import_beam

    import_beam()
    from ...display.console import fault, logs, note, say, width

    config, flags = config_of(args, rest)
    from ...check.check import check
    from ...runners import options as engines

    with logs(args.debug, note):
        options = engines.pipeline_options(flags)
        report = check(config, options)
    say(f"{report.render(width())}\n{report.inventory.engine.render()}")
    problems = report.problems
    for problem in problems:
        fault(problem)
    return EXIT_CONFIG if problems else EXIT_PASSED


def config_of(
    args: argparse.Namespace, rest: list[str], run_id: str | None = None
) -> tuple[EvaluationConfig, list[str]]:
    """Builds the configuration of a command line; returns it with the remaining options, which are Beam's."""
    from ...config.settings import assemble

    source, flags = split_rest(args, rest)
    settings = settings_of(args)
    if flags and source is None and not settings:
        from ...display.console import logs, note
        from ...runners.options import pipeline_options

        with logs(args.debug, note):
            pipeline_options(flags)  # an unknown option says more than that there is nothing to evaluate
    found = Mistakes()
    config = assemble(source, settings, args.run_date, run_id, found)
    if found.errors:
        with planning(args, config, flags, found):  # raises them, and what else is wrong
            pass
    return config, flags


def split_rest(args: argparse.Namespace, rest: list[str]) -> tuple[str | None, list[str]]:
    """Splits unrecognized arguments into the configuration file and the options of Beam, those of --workers too."""
    from ...config.settings import split

    source, flags = split(rest)
    if args.workers is not None:
        from ...runners.workers import local_workers

        flags += local_workers(args.workers)
    return source, flags


def settings_of(args: argparse.Namespace) -> list[tuple[str, str, Any]]:
    """Lists (option, dotted key, value) of the options given."""
    settings: list[tuple[str, str, Any]] = list(args.settings or ())
    if args.dataset:
        settings.append(("--dataset", "dataset.path", args.dataset[0] if len(args.dataset) == 1 else args.dataset))
    if args.overwrite:
        settings.append(("--overwrite", "output.overwrite", True))
    if args.resume_anyway:
        settings.append(("--resume-anyway", "output.resume_anyway", True))
    return settings


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds the options that set keys of the configuration."""

    def setting(flag: str, key: str, metavar: str, words: str) -> None:
        from ...config.settings import make_reader

        reader, shown = make_reader(flag, key), f"{words} ({key})"
        parser.add_argument(flag, action="append", dest="settings", metavar=metavar, type=reader, help=shown)

    words = "files, folders or globs of JSONL, CSV or Parquet (dataset.path)"
    parser.add_argument("--dataset", nargs="+", action="extend", metavar="PATH", help=words)
    setting("--agent", "agent.target", "MODULE:NAME", "the agent; default: the answers are in the rows")
    setting("--metrics", "metrics", "NAME,...", "names, or module:name; see `evalbeam metrics`")
    setting("--output", "output.path", "FOLDER", "folder of the tables")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run (output.overwrite)")
    text = "resume an unfinished run even if its agent has changed (output.resume_anyway)"
    parser.add_argument("--resume-anyway", action="store_true", help=text)
    text = "value of {run_date} in paths, queries, the keys of output.bigquery and of sinks"
    parser.add_argument("--run-date", metavar="DAY", type=_parse_day, help=text)
    setting("--replay", "replay", "RUN", "score the answers of the run in folder RUN; no agent is called")
    setting("--gate-against", "gate.against", "RUN", "compare with that run, too; end with the worse exit code")
    setting("--format", "output.format", "FORMAT", "parquet, jsonl or csv")
    setting("--trials", "trials", "N", "number of agent runs for each row")
    setting("--slices", "slices", "COLUMN,...", f"break the summary down {SLICES}")
    setting("--limit", "dataset.limit", "N", "at most N rows, chosen by hash")
    setting("--sample", "dataset.sample", "SHARE", "share of the rows in (0, 1], chosen by hash")
    words = "worker processes of the local engine; auto (the default) uses the processors for many recorded rows"
    parser.add_argument("--workers", type=_parse_workers, metavar="N", help=words)
    parser.add_argument(
        "--set",
        action="append",
        dest="settings",
        metavar="KEY=VALUE",
        type=read_setting,
        help="set any key of the configuration; KEY is dotted, VALUE is YAML; repeatable",
    )


def _parse_day(text: str) -> str:
    from ...config.placeholders import parse_day

    return parse_day(text)


def _parse_workers(text: str) -> int | None:
    if text == "auto":
        return None
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ConfigError(f"found {text!r}", where="--workers", allowed="a number of at least 1, or auto")


def read_setting(text: str) -> tuple[str, str, Any]:
    """Parses the value of `--set` as (option, key, value).

    Raises:
        ConfigError: The text is not KEY=VALUE, or VALUE is not valid YAML.
    """
    from ...config.settings import make_reader

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"found {text!r}", where="--set", allowed="KEY=VALUE, such as dataset.limit=100")
    return make_reader(f"--set {key.strip()}", key.strip())(value)
