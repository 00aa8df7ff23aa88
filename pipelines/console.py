"""Writing to the user: results to standard output, everything else to standard error, one line each."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator

from ..schemas.errors import RunError

MOST_CHARACTERS = 2000
"""Characters of one message."""


def say(text: str) -> None:
    """Writes a result; a reader that has gone away (`| head`) is none of our business."""
    try:
        _replacing(sys.stdout)
        print(text.rstrip("\n"), flush=True)
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  the interpreter flushes it when it ends


def note(text: str) -> None:
    """Writes a remark."""
    print(f"evalbeam: {one_line(text)}", file=sys.stderr, flush=True)


def fault(text: str) -> None:
    """Writes what went wrong."""
    note(f"error: {text}")


def one_line(text: str) -> str:
    """The text on one line, without characters that would steer a terminal."""
    words = " ".join(text.split())
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    if len(shown) <= MOST_CHARACTERS:
        return shown
    return f"{shown[: MOST_CHARACTERS * 3 // 4]} … {shown[-MOST_CHARACTERS // 4 :]}"


def width() -> int:
    """Columns there are for a table; where nobody looks, enough for long names."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


@contextlib.contextmanager
def logs(debug: bool, write: Callable[[str], None], informed: str = "") -> Iterator[None]:
    """Shows the warnings of other libraries (and of the agent) as one line each; with `debug`, all as they are.

    Beam's own are left out: what matters of them becomes the run's error.

    Args:
        debug: Show everything.
        write: Writes one line.
        informed: Logger of Beam whose messages are shown after all.
    """
    root = logging.getLogger()
    level, handlers = root.level, root.handlers
    if debug:
        root.handlers = handlers or [logging.StreamHandler()]
        root.setLevel(logging.INFO)
    else:
        root.handlers = [_Lines(write, informed)]
        root.setLevel(logging.INFO if informed else logging.WARNING)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Has Ctrl-C and SIGTERM end what runs meanwhile as a run that was stopped, whatever libraries make of it.

    Raises:
        RunError: It was stopped.
    """
    caught: list[int] = []

    def stop(number: int, frame: object) -> None:
        caught.append(number)
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    signals = [s for s in (signal.SIGINT, signal.SIGTERM) if here and signal.getsignal(s) is not signal.SIG_IGN]
    before = {s: signal.signal(s, stop) for s in signals}
    try:
        yield
    except BaseException as error:
        if caught:
            raise RunError(f"stopped by {'Ctrl-C' if caught[0] == signal.SIGINT else 'SIGTERM'}") from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], None], informed: str) -> None:
        super().__init__()
        self.write, self.informed = write, informed

    def emit(self, record: logging.LogRecord) -> None:
        beam = record.name.startswith("apache_beam")
        if beam and not (self.informed and record.name.startswith(self.informed)):
            return
        if record.levelno < logging.WARNING and not beam:
            return
        try:
            lines = record.getMessage().strip().splitlines()
        except Exception:  # a log call with wrong arguments is its caller's business
            lines = [str(record.msg)]
        self.write(f"{record.levelname.lower()}: {record.name}: {lines[0] if lines else ''}")


def _replacing(stream: object) -> None:
    """Has a stream replace what its encoding cannot show."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # type: ignore[attr-defined]
