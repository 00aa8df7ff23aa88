"""`evalbeam evaluate-instances`: the rapid evaluation API at the standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ...schemas.errors import ConfigError
from .base import PASSED, no_more

_ABOUT = """\
Reads a request of Vertex AI's evaluateInstances (JSON) at the input and writes the API's response. No service is
called. example: evalbeam evaluate-instances < request.json"""


def add(commands: Any) -> None:
    """Adds the command."""
    words = "answer a request of the rapid evaluation API"
    parser = commands.add_parser("evaluate-instances", help=words, description=_ABOUT)
    parser.set_defaults(handle=_evaluate_instances)


def _evaluate_instances(args: argparse.Namespace, rest: list[str]) -> int:
    import json

    from ..console import logs, note, say
    from ..evaluate_instances import evaluate_instances

    no_more(rest)
    if sys.stdin.isatty():
        raise ConfigError("no request at the input", allowed="evalbeam evaluate-instances < request.json")
    with logs(args.debug, note):
        say(json.dumps(evaluate_instances(sys.stdin.buffer.read()), indent=2))
    return PASSED
