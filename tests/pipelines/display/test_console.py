"""A signal ends a run wherever it arrives; streams that nobody reads end nothing."""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from evalbeam.pipelines.display import console
from evalbeam.pipelines.display.console import one_line

PROGRAM = """
import gc, os, signal, time
from evalbeam.pipelines.display.console import stoppable
from evalbeam.schemas.errors import RunError

def callback(phase, info):
    if not sent:
        sent.append(phase)
        os.kill(os.getpid(), signal.SIGTERM)

sent = []
gc.disable()  # it would call back before the signal has a handler
gc.callbacks.append(callback)
try:
    with stoppable("; go on"):
        gc.collect()
        while True:
            time.sleep(1)
except RunError as error:
    print(error)
"""


def test_a_signal_that_a_callback_of_the_collector_swallows_comes_again() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, env={**os.environ}
    )
    assert (ran.returncode, ran.stdout) == (0, f"stopped by {signal.SIGTERM.name}; go on\n"), ran.stderr


AGENT = """
import logging

def ask(prompt):
    logging.getLogger("my.agent").warning("asked")
    return "yes"
"""
COMMAND = "from evalbeam.pipelines.cli.main import command; command()"
RUN = ["run", "--dataset", "rows.jsonl", "--agent", "warning_agent:ask", "--metrics", "exact_match", "--output", "out"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a", "reference": "yes"}')
    (tmp_path / "warning_agent.py").write_text(AGENT)
    return tmp_path


def started(folder: Path, *arguments: str, closed: tuple[int, ...] = (), **streams: int) -> int:
    """Exit code of the command, started without some of its streams."""
    closing = functools.partial(list, map(os.close, closed)) if closed else None
    process = [sys.executable, "-c", COMMAND, *arguments]
    return subprocess.run(process, cwd=folder, check=False, preexec_fn=closing, timeout=120, **streams).returncode


def answered(folder: Path) -> bool:
    counts = json.loads((folder / "out" / "manifest.json").read_text())["counts"]
    return counts["ok"] == counts["rows"] == 1


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_run_needs_no_streams(folder: Path, closed: tuple[int, ...]) -> None:
    assert started(folder, *RUN, closed=closed) == 0
    assert answered(folder)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_a_log_that_is_full_fails_no_call_and_lost_results_are_told(folder: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        assert started(folder, *RUN, stderr=full) == 0
        assert answered(folder)
        assert started(folder, "show", "nowhere", stderr=full) == 2
        read, write = os.pipe()
        assert started(folder, "show", "out", stdout=full, stderr=write) == 3
        os.close(write)
        with open(read) as said:
            assert said.read().startswith("evalbeam: error: cannot write to standard output: No space left")
    finally:
        os.close(full)


def test_joiners_are_no_controls() -> None:
    assert one_line("می\u200cخواهم 👩\u200d🚒\x1b[31m\u202e") == "می\u200cخواهم 👩\u200d🚒�[31m�"


def test_a_warning_is_shown_once_however_often_it_comes() -> None:
    shown: list[str] = []
    logger = logging.getLogger("some.library")
    with console.logs(False, shown.append):
        for number in (1, 2, 1, 1):
            logger.warning("call %d\nhas no usage", number)
    assert shown == ["warning: some.library: call 1", "warning: some.library: call 2"]
