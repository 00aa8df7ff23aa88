"""How our processes end."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn


def end_with(main: Callable[[], int], otherwise: int = 1) -> NoReturn:
    """Runs a program and ends the process with its exit code, in a way that nothing can delay or spoil.

    Native threads of client libraries (gRPC, Arrow) now and then abort a process whose interpreter is taken apart
    around them; by then everything has been written, so the process ends before that. All other handlers of its end
    run first.

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
