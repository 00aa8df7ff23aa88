"""Waiting for other processes, for as long as it may take and no longer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Waits for something that another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} seconds for {what}"
        time.sleep(0.05)


def ended(process: subprocess.Popen[str], code: int, seconds: float = 400) -> str:
    """What a command said on the standard error, once it ended with an exit code."""
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == code, f"{out[-2000:]}\n{err[-4000:]}"
    return err
