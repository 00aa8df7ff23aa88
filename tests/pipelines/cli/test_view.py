"""The command `view` as a process: it prints its address, serves, and ends with Ctrl-C."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main

_LOADED = """
import sys
from evalbeam.pipelines.view.server import listening
from evalbeam.pipelines.view.site import Site
site = Site(sys.argv[2])
site.open(sys.argv[1])
page = site.answer("", {}, lambda: True)
assert "explorer" in page
print("loaded:", *sorted({"apache_beam", "google.cloud.storage"} & set(sys.modules)))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("view") / "out"
    return evaluate([{"prompt": "a", "reference": "a", "response": "a"}], ["exact_match"], output=str(folder)).output


@pytest.mark.parametrize("sent", [signal.SIGINT])
def test_ctrl_c_ends_it_with_0(run: str, sent: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evalbeam", "view", run, "--no-open"]
    heeds = functools.partial(signal.signal, sent, signal.SIG_DFL)  # tests in the background may ignore Ctrl-C
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=heeds
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert b'id="explorer"' in answer.read()
            process.send_signal(sent)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert out == ""
    assert err == f"evalbeam: shows {run} until Ctrl-C\n"


def test_beam_is_not_imported(run: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LOADED, run, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "loaded:\n"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["nowhere"], "nowhere: is no run, and has none in it"),
        (["RUN", "nowhere"], "nowhere: is no run, and has none in it"),
        (["RUN", "--port", "70000"], "--port: found '70000' (allowed: a number from 0 to 65535)"),
        (["RUN", "--port", "x"], "--port: found 'x'"),
        (["RUN", "--wrong"], "unknown argument '--wrong'"),
        ([], "the following arguments are required: FOLDER"),
    ],
)
def test_mistakes_are_told(run: str, given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", *(run if word == "RUN" else word for word in given), "--no-open"]) == 2
    assert told in capsys.readouterr().err
