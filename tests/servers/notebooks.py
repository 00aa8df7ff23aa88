"""Executes notebooks as Jupyter does: in a kernel of their own, whose event loop runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_EXECUTE = """
import sys, nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in sys.argv[1:]])
try:
    nbclient.NotebookClient(book, timeout=240, kernel_name="python3").execute()
finally:
    nbformat.write(book, "executed.ipynb")
"""

CELLS = (
    """
import asyncio, pandas, sys, threading
from evalbeam import evaluate
ROWS = [{"prompt": "a", "reference": "x", "response": "x"}, {"prompt": "b", "reference": "x", "response": "y"}]
assert asyncio.get_running_loop().is_running()
result = evaluate(ROWS, ["exact_match"])
print(result.state, result.summary_metrics["exact_match/mean"])
""",
    """
async def answer(prompt):
    await asyncio.sleep(0)
    return "x"
called = evaluate(pandas.DataFrame(ROWS).drop(columns="response"), ["exact_match"], answer)
print(called.state, called.summary_metrics["exact_match/mean"], len(called.metrics_table))
""",
    """
means = []
def one():
    means.append(evaluate(ROWS, ["exact_match"]).summary_metrics["exact_match/mean"])
threads = [threading.Thread(target=one) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(means)
""",
    """
for _ in range(45): one()
print(set(means), len(means), threading.active_count() < 30)
""",
    """
import json, pathlib
import apache_beam as beam
from evalbeam import Evaluate, EvaluationConfig, make_plan
pathlib.Path("rows.jsonl").write_text(json.dumps(ROWS[0]))
section = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"], "output": {"path": "own"}}
with beam.Pipeline() as pipeline:
    _ = pipeline | Evaluate(make_plan(EvaluationConfig.parse(section)))
print(json.loads(pathlib.Path("own/manifest.json").read_text())["state"])
""",
    """
print(get_ipython() is not None, "ipykernel" in sys.modules, pandas.__version__.split(".")[0])
result
""",
)
"""A first hour: recorded answers, an agent, threads, 50 runs in all, a pipeline of one's own, and a shown result."""

COLAB = """
import sys, types
from ipykernel.zmqshell import ZMQInteractiveShell
class Shell(ZMQInteractiveShell): pass
Shell.__module__ = "google.colab._shell"
for name in ("google.colab", "google.colab._shell"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["google.colab._shell"].Shell = Shell
get_ipython().__class__ = Shell
"""
"""Makes a kernel look like Colab's, a fake of it: by these modules and this class of shell libraries tell it."""


def execute(cells: Sequence[str], folder: Path, env: Mapping[str, str] = {}) -> list[list[dict[str, Any]]]:
    """Executes cells in a folder and returns the outputs of each, as the executed notebook holds them.

    Args:
        cells: The code of the cells.
        folder: Where the kernel works; the executed notebook is written there.
        env: Variables of the environment that differ from those of this process.

    Raises:
        AssertionError: A cell failed.
    """
    own = {"JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": str(folder / ".ipython"), "JUPYTER_CONFIG_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", _EXECUTE, *cells],
        cwd=folder,
        env={**os.environ, **own, **env},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    book = json.loads((folder / "executed.ipynb").read_text())
    return [cell["outputs"] for cell in book["cells"]]


def check_first_hour(folder: Path, pandas: int, env: Mapping[str, str] = {}) -> None:
    """Executes `CELLS` and looks at all that a reader sees: the results, and nothing beside them."""
    *printed, last = execute(CELLS, folder, env)
    assert [output["name"] for outputs in printed for output in outputs] == ["stdout"] * len(printed)
    assert ["".join(output["text"]) for outputs in printed for output in outputs] == [
        "finished 0.5\n",
        "finished 1.0 2\n",
        "[0.5, 0.5, 0.5]\n",
        "{0.5} 48 True\n",
        "finished\n",
    ]
    shown, result = last
    assert "".join(shown["text"]) == f"True True {pandas}\n"
    assert re.fullmatch(r"EvaluationResult\('\S+': finished, 2 rows\)", "".join(result["data"]["text/plain"]))
