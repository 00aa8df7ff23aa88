"""`python -m evalbeam.pipelines.demo [options of evalbeam run]`: the bundled evaluation, wherever it is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..cli.main import main

FOLDER = Path(__file__).parent
OUTPUT = "evalbeam-out/demo"


def build_arguments(options: list[str]) -> list[str]:
    """Builds the command line of the demo; options given by the user override its own."""
    rows = f"dataset.path={json.dumps(str(FOLDER / 'rows.jsonl'))}"
    return ["run", str(FOLDER / "eval.yaml"), "--set", rows, "--output", OUTPUT, "--overwrite", *options]


if __name__ == "__main__":
    sys.exit(main(build_arguments(sys.argv[1:])))
