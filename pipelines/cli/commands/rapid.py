"""The command `evaluate-instances`: the rapid evaluation API on standard input and output."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ....schemas.exit_codes import EXIT_CRITERION, EXIT_PASSED
from ...config.files import read_bytes
from .base import read_request, reject_arguments

_ABOUT = """\
Reads a request of Vertex AI's evaluateInstances (JSON) and writes the API's response; with --lines, or from a file
*.jsonl, a request and its response on every line. The only calls are those to the judge, for model-based metrics. The
exit code is 1 if a response has an error. Example: evalbeam evaluate-instances < request.json"""


def add(commands: Any) -> None:
    """Adds the command."""
    words = "answer requests of the rapid evaluation API"
    parser = commands.add_parser("evaluate-instances", help=words, description=_ABOUT)
    parser.set_defaults(handle=_evaluate_instances)
    parser.add_argument("file", metavar="FILE", nargs="?", help="file of the request; default: standard input")
    parser.add_argument("--lines", action="store_true", help="a request on every line (JSONL)")
    words = "judge of model-based metrics: {type: NAME, model: NAME, ...}, or module:name of a function"
    parser.add_argument("--judge", metavar="JUDGE", help=words)


def _evaluate_instances(args: argparse.Namespace, rest: list[str]) -> int:
    import json

    from ....schemas.config.yaml_text import load_yaml
    from ...compat.evaluate_instances import evaluate_instances, evaluate_requests, has_error
    from ...display.console import logs, note, say

    reject_arguments(rest)
    data = read_request(sys.stdin, "evaluate-instances") if args.file is None else read_bytes(args.file)
    judges = {"default": load_yaml(args.judge, "--judge")} if args.judge else None
    failed = 0
    with logs(args.debug, note):
        if not (args.lines or (args.file or "").endswith(".jsonl")):
            response = evaluate_instances(data, judges=judges)
            say(json.dumps(response, indent=2))
            return EXIT_CRITERION if has_error(response) else EXIT_PASSED
        lines = [line for line in data.splitlines() if line.strip()]
        for response in evaluate_requests(lines, judges=judges):
            say(json.dumps(response))
            failed += has_error(response)
    if failed:
        note(f"{failed} of {len(lines)} responses have an error")
    return EXIT_CRITERION if failed else EXIT_PASSED
