"""The command `evaluate-instances`: the rapid evaluation API on standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .base import PASSED, read_request, reject_arguments

_ABOUT = """\
Reads a request of Vertex AI's evaluateInstances (JSON) from standard input and writes the API's response. The only
calls are those to the judge, for model-based metrics. Example: evalbeam evaluate-instances < request.json"""


def add(commands: Any) -> None:
    """Adds the command."""
    words = "answer a request of the rapid evaluation API"
    parser = commands.add_parser("evaluate-instances", help=words, description=_ABOUT)
    parser.set_defaults(handle=_evaluate_instances)
    words = "judge of model-based metrics: {type: NAME, model: NAME, ...}, or module:name of a function"
    parser.add_argument("--judge", metavar="JUDGE", help=words)


def _evaluate_instances(args: argparse.Namespace, rest: list[str]) -> int:
    import json

    from ....schemas.config.yaml_text import load_yaml
    from ...compat.evaluate_instances import evaluate_instances
    from ...display.console import logs, note, say

    reject_arguments(rest)
    request = read_request(sys.stdin, "evaluate-instances")
    judges = {"default": load_yaml(args.judge, "--judge")} if args.judge else None
    with logs(args.debug, note):
        say(json.dumps(evaluate_instances(request, judges=judges), indent=2))
    return PASSED
