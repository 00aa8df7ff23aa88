"""A worker process of the local engine, started by `workers`; it ends at once when its parent process does.

python -m evalbeam.pipelines.runners.local_worker      with a pipe as its standard input, to which one line is written:
the environment variables of the worker, as JSON
"""

from __future__ import annotations

import json
import os
import signal
import threading
from queue import SimpleQueue

from .ending import end_with


def main() -> int:
    """Runs the worker until the engine ends it."""
    pipe = os.dup(0)  # no code of the user's may read from the pipe: standard input becomes empty
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    told: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, told), name="evalbeam-parent", daemon=True).start()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends the process at once, as SIGTERM does
    from . import worker

    worker.warm_up()
    os.environ |= json.loads(told.get())
    return worker.serve()


def _listen(pipe: int, told: SimpleQueue[bytes]) -> None:
    """Passes the line on, and ends this process when the pipe closes: its parent has ended."""
    with os.fdopen(pipe, "rb") as stream:
        if line := stream.readline():
            told.put(line)
            stream.read()
    os._exit(1)


if __name__ == "__main__":
    end_with(main)
