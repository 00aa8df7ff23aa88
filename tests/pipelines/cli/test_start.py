"""Commands that only look at a run start in a fraction of a second: none of them imports Beam."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evalbeam.pipelines.cli.main import main

_PROBE = """
import sys
from evalbeam.pipelines.cli.main import main
code = main(sys.argv[1:])
assert code == 0, code
print("\\nloaded:", *sorted({"apache_beam", "pandas", "google.cloud.storage"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    (folder / "rows.jsonl").write_text(json.dumps({"prompt": "a", "reference": "a"}))
    (folder / "echoing.py").write_text("def ask(prompt):\n    return prompt\n")
    given = ["--dataset", "rows.jsonl", "--agent", "echoing:ask", "--metrics", "exact_match", "--output", "out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        assert main(["run", *given]) == 0
    return folder / "out"


@pytest.mark.parametrize("command", ["--help", "--version", "metrics", "show", "journal", "wait"])
def test_beam_is_not_imported(command: str, run: Path) -> None:
    arguments = [command, str(run)] if command in ("show", "journal", "wait") else [command]
    done = subprocess.run([sys.executable, "-c", _PROBE, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"
