"""Commands that only look at a run start in a fraction of a second: none of them imports Beam."""

from __future__ import annotations

import json
import re
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


_FILES = """
files = sorted(m.__file__ for m in list(sys.modules.values()) if str(getattr(m, "__file__", None)).endswith(".py"))
print("\\nloaded:", *files, sep="\\n")
"""
_MAKEFILE = Path(__file__).parents[3] / "Makefile"


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


def files_of(code: str, *arguments: str, folder: Path) -> set[str]:
    """Files with source that a new process has imported at the end of some code."""
    command = [sys.executable, "-c", f"import sys\n{code}\n{_FILES}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("\nloaded:\n")[2].splitlines())


def test_make_compiles_all_that_a_run_imports(run: Path) -> None:
    found = re.search(r'^COMPILE = .*? -c "(.*?)"$', _MAKEFILE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    compiled = files_of(found[1].replace("\\\n", ""), folder=run.parent)
    given = ["--dataset", "rows.jsonl", "--agent", "echoing:ask", "--metrics", "exact_match", "--output", "other"]
    imported = files_of(
        "from evalbeam.pipelines.cli.main import main; main(sys.argv[1:])", "run", *given, folder=run.parent
    )
    own = {file for file in imported if file.startswith(str(run.parent))}
    assert len(imported) > 1000
    assert imported - own - compiled == set()
