"""`evalbeam evaluate-instances`: the rapid evaluation API at the standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .base import PASSED, no_more, request_at

_ABOUT = """\
Reads a request of Vertex AI's evaluateInstances (JSON) at the input and writes the API's response. Nobody is called but
the judge, for model-based metrics. example: evalbeam evaluate-instances < request.json"""


def add(commands: Any) -> None:
    """Adds the command."""
    words = "answer a request of the rapid evaluation API"
    parser = commands.add_parser("evaluate-instances", help=words, description=_ABOUT)
    parser.set_defaults(handle=_evaluate_instances)
    words = "who scores model-based metrics: {type: NAME, model: NAME, ...}, or module:name of a function"
    parser.add_argument("--judge", metavar="JUDGE", help=words)


def _evaluate_instances(args: argparse.Namespace, rest: list[str]) -> int:
    import json

    from ....schemas.config.yaml_text import load_yaml
    from ...compat.evaluate_instances import evaluate_instances
    from ...display.console import logs, note, say

    no_more(rest)
    request = request_at(sys.stdin, "evaluate-instances")
    judges = {"default": load_yaml(args.judge, "--judge")} if args.judge else None
    with logs(args.debug, note):
        say(json.dumps(evaluate_instances(request, judges=judges), indent=2))
    return PASSED
