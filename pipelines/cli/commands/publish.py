"""The command `publish`: a finished run is sent to its sinks once more."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.exit_codes import EXIT_PASSED, EXIT_RUN
from .base import publish_with_notes, reject_arguments, write_page
from .run import read_setting

_ABOUT = """\
Sends a finished run to its sinks: MLflow, OpenTelemetry, an experiment of Vertex AI. No table changes, and nothing is
called or scored. What was sent before is replaced. The sinks are those of the run's configuration; CONFIG, a YAML or
JSON file, or --set names others."""
_EXAMPLES = """\
examples:
  evalbeam publish out
  evalbeam publish out --set 'output.mlflow={tracking_uri: "http://localhost:5000", experiment: bot}'
"""


def add(commands: Any) -> None:
    """Adds the command."""
    usage = "evalbeam publish FOLDER [CONFIG] [--set KEY=VALUE]"
    words = "send a finished run to its sinks again"
    parser = commands.add_parser("publish", help=words, usage=usage, description=_ABOUT, epilog=_EXAMPLES)
    parser.add_argument("folder", metavar="FOLDER", help="output folder of the run")
    words = "set any key of the configuration; KEY is dotted, VALUE is YAML; repeatable"
    parser.add_argument(
        "--set", action="append", dest="settings", metavar="KEY=VALUE", type=read_setting, default=[], help=words
    )
    parser.set_defaults(handle=_publish)


def _publish(args: argparse.Namespace, rest: list[str]) -> int:
    from ...config.files import load
    from ...config.settings import build, split
    from ...display.console import say
    from ...run.lifecycle import config_at
    from ...run.publish import require_named
    from ...run.result import SINKS, EvaluationResult, require_finished

    source, flags = split(rest)
    reject_arguments(flags)
    data = config_at(args.folder, "FOLDER") if source is None else load(source)
    settings = [*args.settings, ("FOLDER", "output.path", args.folder)]
    output = build(data, settings, None, source or args.folder).output
    result = EvaluationResult.load(args.folder)
    require_finished(result, "publish")
    names = require_named(output)
    write_page(result)
    result = publish_with_notes(result, output)
    sent = {name: one for name, one in (result.manifest.get(SINKS) or {}).items() if name in names}
    for name, one in sent.items():
        place = ", ".join(f"{key} {value}" for key, value in one.items() if key not in ("state", "attempts", "reason"))
        say(f"{name}: {one['state']}{f' ({place})' if place else ''}")
    return EXIT_PASSED if len(sent) == len(names) and all(one["state"] == "sent" for one in sent.values()) else EXIT_RUN
