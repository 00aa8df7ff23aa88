"""`evalbeam adk-eval`, `adk-migrate` and `to-evalset`: ADK's files and words at the command line."""

from __future__ import annotations

import argparse
from typing import Any

from .base import CRITERION, PASSED

_ABOUT = """\
Evaluates an ADK agent on eval sets, with the arguments of `adk eval`: calls it for every case, many at once, judges
each by the criteria, and writes ADK's result files to the agent's .adk/eval_history, where `adk web` shows them.
Options that are not listed go to Apache Beam."""
_EXAMPLES = """\
examples:
  evalbeam adk-eval agents/hello_world agents/hello_world/hello_world.evalset.json
  evalbeam adk-eval agents/hello_world tests/set.evalset.json:case_1,case_2 --config_file_path tests/test_config.json
"""


def add(commands: Any) -> None:
    """Adds the commands."""
    words = "evaluate an ADK agent on eval sets"
    parser = commands.add_parser("adk-eval", help=words, description=_ABOUT, epilog=_EXAMPLES)
    parser.set_defaults(handle=_adk_eval)
    parser.add_argument("agent", metavar="AGENT", help='folder of the agent, or "module:name"')
    words = "files, each with or without :case,case; folders of *.test.json; ids of sets in the agent's folder"
    parser.add_argument("eval_sets", nargs="+", metavar="EVAL_SET", help=words)
    words = "criteria (default: test_config.json beside a single file, else ADK's own)"
    parser.add_argument("--config_file_path", metavar="PATH", help=words)
    parser.add_argument("--print_detailed_results", action="store_true", help="show every case, turn by turn")
    parser.add_argument("--num_runs", type=int, default=1, metavar="N", help="how often each case is run")
    parser.add_argument("--output", metavar="FOLDER", help="where the tables go (default: a temporary folder)")
    parser.add_argument("--overwrite", action="store_true", help="replace a finished run at --output")
    parser.add_argument("--turn_timeout", type=float, metavar="SECONDS", help="seconds a turn may take (default: 300)")
    parser.add_argument("--max_in_flight", type=int, metavar="N", help="conversations at once (default: 64)")
    words = "a case passes although a criterion could not be evaluated, as with `adk eval`"
    parser.add_argument("--adk_verdicts", action="store_true", help=words)

    words = "write an older eval set in the current form"
    migrate = commands.add_parser(
        "adk-migrate", help=words, description="Writes an eval set of any form as an EvalSet."
    )
    migrate.set_defaults(handle=_migrate)
    migrate.add_argument("source", metavar="OLD", help="file to read")
    migrate.add_argument("destination", metavar="NEW", help="file to write")
    migrate.add_argument("--initial_session_file", metavar="PATH", help="session of cases that do not say theirs")

    about = "Writes the answers of a finished run as an EvalSet that expects them, as `adk web` saves a session."
    saved = commands.add_parser("to-evalset", help="write a run's answers as an ADK eval set", description=about)
    saved.set_defaults(handle=_to_evalset)
    saved.add_argument("output", metavar="OUTPUT", help="folder of the run")
    saved.add_argument("destination", metavar="FILE", help="file to write, NAME.evalset.json")
    saved.add_argument("--eval_set_id", metavar="ID", help="id of the set (default: the file's name)")


def _adk_eval(args: argparse.Namespace, rest: list[str]) -> int:
    import logging
    import os

    from ....transforms.calls.engine import Engine
    from ...adk.evaluate import adk_evaluate, config_of, eval_files
    from ...adk.report import detailed, summary
    from ...display.console import logs, note, say, stoppable

    files = eval_files(args.eval_sets, args.agent if os.path.isdir(args.agent) else "")
    if args.config_file_path is None and len(files) > 1:
        note("ADK's own criteria: of several files none's test_config.json is used (--config_file_path)")
    config = config_of(files, args.config_file_path)
    options = {k: v for k in ("turn_timeout", "max_in_flight") if (v := getattr(args, k)) is not None}
    logging.getLogger("google_adk").setLevel(logging.NOTSET if args.debug else logging.CRITICAL)  # the tables say it
    with stoppable(told=Engine.end), logs(args.debug, note):
        evaluation = adk_evaluate(
            args.agent,
            files,
            config,
            num_runs=args.num_runs,
            output=args.output,
            agent_options=options,
            lenient=args.adk_verdicts,
            options=rest,
            overwrite=args.overwrite,
        )
    if args.print_detailed_results:
        say("\n".join(detailed(evaluation)))
    say("\n".join(summary(evaluation)))
    if evaluation.scenarios:
        note(f"{len(evaluation.scenarios)} scenarios need a user simulator: {', '.join(evaluation.scenarios[:10])}")
    if os.path.isdir(args.agent):
        _write_results(args.agent, evaluation)
    note(f"tables: {evaluation.run.output}")
    return PASSED if evaluation.passed else CRITERION


def _write_results(agent: str, evaluation: Any) -> None:
    """Writes ADK's result files into the agent's folder."""
    import os

    from ...adk.evaluate import write_results
    from ...display.console import note

    folder = os.path.join(agent, ".adk", "eval_history")
    try:
        for path in write_results(evaluation, folder, os.path.basename(os.path.abspath(agent))):
            note(f"results: {path}")
    except OSError as error:
        note(f"the result files could not be written: {error}")


def _migrate(args: argparse.Namespace, rest: list[str]) -> int:
    from ...adk.eval_sets import adk_migrate
    from ...display.console import say
    from .base import no_more

    no_more(rest)
    count = adk_migrate(args.source, args.destination, args.initial_session_file)
    say(f"{args.destination}: {count} cases")
    return PASSED


def _to_evalset(args: argparse.Namespace, rest: list[str]) -> int:
    from ...adk.eval_sets import to_evalset
    from ...display.console import say
    from .base import no_more

    no_more(rest)
    count = to_evalset(args.output, args.destination, args.eval_set_id)
    say(f"{args.destination}: {count} cases")
    return PASSED
