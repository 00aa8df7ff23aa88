"""Ends processes safely."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn


def end_with(main: Callable[[], int], otherwise: int = 1) -> NoReturn:
    """Runs a program and ends the process with its exit code, without tearing the interpreter down.

    Native threads of client libraries (gRPC, Arrow) sometimes abort a process while its interpreter is torn down. All
    output is written by then, so the process ends before that. All other `atexit` handlers run first.

    Args:
        main: The program.
        otherwise: Exit code if it raises.
    """
    code = otherwise

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)

    atexit.register(end)  # the first to be registered is the last to run
    code = main()
    sys.exit(code)
