"""The command `check-grounding`: the Check Grounding API on standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ....schemas.errors import ConfigError
from ....schemas.exit_codes import EXIT_PASSED
from .base import read_request, reject_arguments

_ABOUT = """\
Reads a request of Vertex AI's Check Grounding API (JSON) from standard input and writes the API's response. No service
is called unless the checker is one. Example: evalbeam check-grounding < request.json"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("check-grounding", help="check one answer against facts", description=_ABOUT)
    parser.set_defaults(handle=_check_grounding)
    words = "checker of claims against facts: a name, or {type: NAME, parameters ...} (default: lexical)"
    parser.add_argument("--checker", default="lexical", metavar="CHECKER", help=words)
    words = "retrieve the facts from documents (JSONL, Parquet, CSV) or a search app instead of from the request"
    parser.add_argument("--facts-from", metavar="CORPUS", help=words)
    parser.add_argument("--language", default="en", metavar="CODE", help="language of the answer (default: en)")


def _check_grounding(args: argparse.Namespace, rest: list[str]) -> int:
    import json

    import yaml

    from ...compat.check_grounding import check_grounding
    from ...display.console import logs, note, say

    reject_arguments(rest)
    request = read_request(sys.stdin, "check-grounding")
    try:
        checker = yaml.safe_load(args.checker)
    except yaml.YAMLError:
        allowed = "a name, or {type: NAME, ...}"
        raise ConfigError(f"found {args.checker!r}", where="--checker", allowed=allowed) from None
    with logs(args.debug, note):
        response = check_grounding(request, checker=checker, facts_from=args.facts_from, language=args.language)
        say(json.dumps(response, ensure_ascii=False, indent=2))
    return EXIT_PASSED
