"""Runs from a real IPython and from notebooks, where Beam behaves in other ways than in a plain Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from apache_beam import pipeline as beams
from notebooks import CELLS, COLAB, check_first_hour, execute

from evalbeam.pipelines.notebook import plain_pipelines

CELL = """
import glob, json, os, sys, tempfile
from evalbeam import evaluate
before = set(os.listdir(tempfile.gettempdir()))
result = evaluate([{"prompt": "a", "reference": "x", "response": "x"}], ["exact_match"], output="out")
left = sorted(set(os.listdir(tempfile.gettempdir())) - before)
found = {
    "state": result.state,
    "mean": result.summary_metrics["exact_match/mean"],
    "interactive": "apache_beam.runners.interactive.interactive_environment" in sys.modules,
    "ipython": get_ipython() is not None,
    "left": left,
}
open("found.json", "w").write(json.dumps(found))
"""


def test_a_run_in_ipython_is_one_as_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", CELL]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == {"state": "finished", "mean": 1.0, "interactive": False, "ipython": True, "left": []}


def test_a_first_hour_in_a_notebook(tmp_path: Path) -> None:
    """In an executed notebook; tests/engines/pandas does the same with pandas 2."""
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name)
    check_first_hour(tmp_path, int(pd.__version__.partition(".")[0]))


def test_a_kernel_that_looks_like_colab(tmp_path: Path) -> None:
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name)
    found, *printed = execute([COLAB, *CELLS[:3], "print(type(get_ipython()).__module__)\nresult"], tmp_path)
    assert found == []
    assert [output["name"] for outputs in printed[:-1] for output in outputs] == ["stdout"] * 3
    shown, result = printed[-1]
    assert "".join(shown["text"]) == "google.colab._shell\n"
    assert "://" not in "".join(result["data"]["text/html"])  # nothing is loaded from elsewhere


def test_what_is_replaced_in_beam_is_put_back_after_the_last_of_several_runs() -> None:
    def current() -> tuple[object, object]:
        return beams.alter_label_if_ipython, beams.is_in_ipython

    before = current()
    with plain_pipelines():
        inside = current()
        with pytest.raises(KeyError), plain_pipelines():
            raise KeyError
        assert current() == inside
        assert not set(inside) & set(before)
    assert current() == before
