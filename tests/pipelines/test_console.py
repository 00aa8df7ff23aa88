"""A signal ends a run wherever it arrives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

PROGRAM = """
import gc, os, signal, time
from evalbeam.pipelines.console import stoppable
from evalbeam.schemas.errors import RunError

def callback(phase, info):
    if not sent:
        sent.append(phase)
        os.kill(os.getpid(), signal.SIGTERM)

sent = []
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
