"""A worker process of the local engine, started by `workers`; it ends at once when its parent process does.

python -m evalbeam.pipelines.runners.local_worker      with a pipe as its standard input, to which nothing is ever
written
"""

from __future__ import annotations

import os
import signal
import threading

from .ending import end_with


def main() -> int:
    """Runs the worker until the engine ends it."""
    pipe = os.dup(0)  # no code of the user's may read from the pipe: standard input becomes empty
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    end_with_parent(pipe)
    from .worker import serve

    return serve()


def end_with_parent(pipe: int) -> None:
    """Makes this process end at once when the other end of a pipe closes, on Ctrl-C and on SIGTERM."""
    threading.Thread(target=_end_with, args=(pipe,), name="evalbeam-parent", daemon=True).start()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # SIGTERM has no handler


def _end_with(pipe: int) -> None:
    """Ends this process when the other end of the pipe closes, which it does at the end of the parent process."""
    while os.read(pipe, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    end_with(main)
