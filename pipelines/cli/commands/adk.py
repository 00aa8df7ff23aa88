"""The commands `adk-eval`, `adk-migrate` and `to-evalset`, which work on ADK's files."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.errors import ConfigError, name_error
from ....schemas.exit_codes import EXIT_CRITERION, EXIT_PASSED
from .base import write_page
from .run import read_setting

_ABOUT = """\
Evaluates an ADK agent on eval sets, with the arguments of `adk eval`. The cases run concurrently. Each is scored
against the criteria, and ADK's result files are written to the agent's .adk/eval_history, where `adk web` shows them.
Unlisted options are passed to Apache Beam."""
_EXAMPLES = """\
examples:
  evalbeam adk-eval agents/hello_world agents/hello_world/hello_world.evalset.json
  evalbeam adk-eval agents/hello_world tests/set.evalset.json:case_1,case_2 --config_file_path tests/test_config.json
"""


_POLICY = (
    ("max_in_flight", int, "concurrent conversations (default: 64)"),
    ("max_in_flight_total", int, "concurrent conversations of all worker processes"),
    ("max_attempts", int, "attempts of each conversation (default: 3)"),
    ("requests_per_minute", float, "conversations started in a minute"),
    ("tokens_per_minute", float, "tokens of the agent in a minute"),
    ("timeout", float, "seconds of one attempt of a conversation (default: 3600)"),
    ("deadline", float, "seconds of a conversation over all attempts"),
    ("rate_limit_timeout", float, "seconds until an agent that only refuses calls is called no more (default: 120)"),
    ("failure_threshold", float, "share of failed conversations above which no more are held (default: 0.5)"),
    ("backoff", float, "seconds of the first wait between attempts (default: 0.5)"),
    ("max_backoff", float, "most seconds of a wait between attempts (default: 30)"),
)
"""Options of the agent's call policy: name, type, help."""


def add(commands: Any) -> None:
    """Adds the commands."""
    words = "evaluate an ADK agent on eval sets"
    parser = commands.add_parser("adk-eval", help=words, description=_ABOUT, epilog=_EXAMPLES)
    parser.set_defaults(handle=_adk_eval)
    parser.add_argument("agent", metavar="AGENT", help='folder of the agent, or "module:name"')
    words = "files, optionally followed by :case,case; folders of *.test.json; ids of sets in the agent's folder"
    parser.add_argument("eval_sets", nargs="+", metavar="EVAL_SET", help=words)
    words = "criteria (default: test_config.json next to a single file, else ADK's defaults)"
    parser.add_argument("--config_file_path", metavar="PATH", help=words)
    parser.add_argument("--print_detailed_results", action="store_true", help="show every case turn by turn")
    parser.add_argument("--num_runs", type=int, default=1, metavar="N", help="number of runs of each case")
    parser.add_argument("--output", metavar="FOLDER", help="folder of the tables (default: a temporary folder)")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run at --output")
    parser.add_argument("--turn_timeout", type=float, metavar="SECONDS", help="timeout of one turn (default: 300)")
    _add_settings(parser)
    words = (
        "verdicts of `adk eval`: a missing expected response is an empty one, and what cannot be evaluated is ignored"
    )
    parser.add_argument("--adk_verdicts", action="store_true", help=words)
    _add_conversions(commands)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds the options of calls, of ADK and of the configuration."""
    for name, kind, text in _POLICY:
        shown = "N" if kind is int else "NUMBER"
        parser.add_argument(f"--{name}", type=kind, metavar=shown, help=text)
    words = "gs://bucket (or a folder) with APP/evals/eval_sets, the sets by id; results go to APP/evals/eval_history"
    parser.add_argument("--eval_storage_uri", metavar="URI", help=words)
    words = "level of ADK's own log (default: nothing, since the tables hold the errors)"
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    parser.add_argument("--log_level", type=str.upper, choices=levels, help=words)
    for switch in ("enable", "disable"):
        words = f"{switch} features of ADK, separated by commas, as ADK_{switch.upper()}_NAME=1 does; repeatable"
        parser.add_argument(f"--{switch}_features", action="append", default=[], metavar="NAME,...", help=words)
    words = "set any key of agent or judges as in a configuration, such as judges.default.max_attempts=1; repeatable"
    parser.add_argument(
        "--set", action="append", dest="settings", default=[], metavar="KEY=VALUE", type=read_setting, help=words
    )


def _add_conversions(commands: Any) -> None:
    """Adds `adk-migrate` and `to-evalset`."""
    words = "convert an older eval set to the current format"
    migrate = commands.add_parser(
        "adk-migrate", help=words, description="Converts an eval set of any format to an EvalSet."
    )
    migrate.set_defaults(handle=_migrate)
    migrate.add_argument("source", metavar="OLD", help="file to read")
    migrate.add_argument("destination", metavar="NEW", help="file to write")
    migrate.add_argument("--initial_session_file", metavar="PATH", help="session for cases without one")

    about = "Writes the answers of a finished run as the expected answers of an EvalSet, as `adk web` saves a session."
    saved = commands.add_parser("to-evalset", help="write a run's answers as an ADK eval set", description=about)
    saved.set_defaults(handle=_to_evalset)
    saved.add_argument("output", metavar="OUTPUT", help="folder of the run")
    saved.add_argument("destination", metavar="FILE", help="file to write, NAME.evalset.json")
    saved.add_argument("--eval_set_id", metavar="ID", help="id of the set (default: the file's name)")


def _adk_eval(args: argparse.Namespace, rest: list[str]) -> int:
    import logging
    import os

    from ....transforms.calls.loop import Loop
    from ...adk.evaluate import adk_evaluate, choose_config, find_eval_files
    from ...display.console import logs, note, stoppable

    agent_dir = args.agent if os.path.isdir(args.agent) else ""
    stored = f"{args.eval_storage_uri.rstrip('/')}/{_app_name(args.agent)}/evals" if args.eval_storage_uri else ""
    files = find_eval_files(args.eval_sets, agent_dir, f"{stored}/eval_sets" if stored else None)
    _switch_features(args.enable_features, args.disable_features)
    if args.config_file_path is None and len(files) > 1:
        note("several files: ADK's default criteria are used; pass --config_file_path to use a test_config.json")
    config = choose_config(files, args.config_file_path)
    sections = _read_sections(args)
    level = args.log_level or ("NOTSET" if args.debug else "CRITICAL")  # the tables hold the errors
    logging.getLogger("google_adk").setLevel(level)
    with stoppable(told=Loop.end), logs(args.debug, note):
        evaluation = adk_evaluate(
            args.agent,
            files,
            config,
            num_runs=args.num_runs,
            output=args.output,
            agent_options=sections["agent"],
            judges=sections["judges"],
            lenient=args.adk_verdicts,
            options=rest,
            overwrite=args.overwrite,
        )
    _show(args, evaluation, stored or os.path.join(args.agent, ".adk") if stored or agent_dir else "")
    return EXIT_PASSED if evaluation.passed else EXIT_CRITERION


def _show(args: argparse.Namespace, evaluation: Any, store: str) -> None:
    """Shows the verdicts, and writes the page and ADK's result files, these below `store` unless it is empty."""
    from ...adk.report import render_details, render_summary
    from ...display.console import note, say

    if args.print_detailed_results:
        say("\n".join(render_details(evaluation)))
    say("\n".join(render_summary(evaluation)))
    write_page(evaluation.run)
    if store:
        _write_results(f"{store}/eval_history", _app_name(args.agent), evaluation)
    note(f"tables: {evaluation.run.output}")


def _read_sections(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the sections `agent` and `judges` of the options."""
    from ...config.settings import put

    names = ("turn_timeout", *(name for name, _, _ in _POLICY))
    data: dict[str, Any] = {"agent": {k: v for k in names if (v := getattr(args, k)) is not None}, "judges": {}}
    for option, key, value in args.settings:
        if key.partition(".")[0] not in data or "." not in key:
            raise ConfigError(f"found the key {key!r}", where=option, allowed="agent.KEY, judges.NAME.KEY")
        put(data, key, value, option)
    return data


def _app_name(agent: str) -> str:
    """Returns ADK's name of an app: that of its folder, or of its module."""
    import os

    return os.path.basename(os.path.abspath(agent)) if os.path.isdir(agent) else agent.partition(":")[0]


def _switch_features(enabled: list[str], disabled: list[str]) -> None:
    """Sets the environment variables of ADK's features, which worker processes inherit.

    Raises:
        ConfigError: ADK has no such feature.
    """
    import os

    from ...config.settings import split_words

    names = [(word, "ENABLE") for text in enabled for word in split_words(text)]
    names += [(word, "DISABLE") for text in disabled for word in split_words(text)]
    if names:
        from google.adk.features import FeatureName

        known = [feature.value for feature in FeatureName]
        for name, switch in names:
            if name not in known:
                raise name_error(f"no feature {name!r}", name, known, f"--{switch.lower()}_features")
            os.environ[f"ADK_{switch}_{name}"] = "1"


def _write_results(folder: str, app: str, evaluation: Any) -> None:
    """Writes ADK's result files; a failure is only reported."""
    from ...adk.evaluate import write_results
    from ...display.console import note

    try:
        for path in write_results(evaluation, folder, app):
            note(f"results: {path}")
    except OSError as error:
        note(f"the result files could not be written: {error}")


def _migrate(args: argparse.Namespace, rest: list[str]) -> int:
    from ...adk.eval_sets import adk_migrate
    from ...display.console import say
    from .base import reject_arguments

    reject_arguments(rest)
    count = adk_migrate(args.source, args.destination, args.initial_session_file)
    say(f"{args.destination}: {count} cases")
    return EXIT_PASSED


def _to_evalset(args: argparse.Namespace, rest: list[str]) -> int:
    from ...adk.eval_sets import to_evalset
    from ...display.console import say
    from .base import reject_arguments

    reject_arguments(rest)
    count = to_evalset(args.output, args.destination, args.eval_set_id)
    say(f"{args.destination}: {count} cases")
    return EXIT_PASSED
