"""Writing to the user: results to standard output, everything else to standard error, one line each."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from ...schemas.errors import RunError

MOST_CHARACTERS = 2000
"""Characters of one message."""
MOST_LINES = 1000
"""Warnings that are known again."""
NOTHING = "–"
"""Stands where a number is not defined."""


def open_streams() -> None:
    """Gives a process that was started without a standard stream an empty one, lest the next file opened be it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:  # those below it are open, so it is the next to be
            os.open(os.devnull, os.O_RDWR)
        setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def say(text: str) -> None:
    """Writes a result; a reader that has gone away (`| head`) is none of our business.

    Raises:
        RunError: It cannot be written.
    """
    try:
        _replacing(sys.stdout)
        print(text.rstrip("\n"), flush=True)
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  the interpreter flushes it when it ends
        if not isinstance(error, BrokenPipeError):
            raise RunError(f"the standard output cannot be written: {error.strerror}") from error


def note(text: str) -> None:
    """Writes a remark."""
    remark(sys.stderr, f"evalbeam: {one_line(text)}\n")


def remark(stream: TextIO, text: str) -> None:
    """Writes at once what may get lost: a terminal that is gone and a disk that is full end nothing."""
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


def fault(text: str) -> None:
    """Writes what went wrong."""
    note(f"error: {text}")


def one_line(text: str) -> str:
    """The text on one line, without characters that would steer a terminal."""
    words = " ".join(text.split())
    shown = "".join(c if printable(c) else "\N{REPLACEMENT CHARACTER}" for c in words)
    if len(shown) <= MOST_CHARACTERS:
        return shown
    return f"{shown[: MOST_CHARACTERS * 3 // 4]} … {shown[-MOST_CHARACTERS // 4 :]}"


def printable(character: str) -> bool:
    """Whether a character may go to a terminal as it is; Persian, Indic scripts and emoji need joiners."""
    return character.isprintable() or character in "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def width() -> int:
    """Columns there are for a table; where nobody looks, enough for long names."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


@contextlib.contextmanager
def logs(debug: bool, write: Callable[[str], None], informed: str = "") -> Iterator[None]:
    """Shows the warnings of other libraries (and of the agent), each once and on one line; with `debug`, as they are.

    Beam's own are left out: what matters of them becomes the run's error.

    Args:
        debug: Show everything.
        write: Writes one line.
        informed: Logger of Beam whose messages are shown after all.
    """
    root = logging.getLogger()
    level, handlers, hook = root.level, root.handlers, threading.excepthook
    if debug:
        root.handlers = handlers or [logging.StreamHandler()]
        root.setLevel(logging.INFO)
    else:
        threading.excepthook = lambda _: None  # Beam's threads end so when the run does
        root.handlers = [_Lines(write, informed)]
        root.setLevel(logging.INFO if informed else logging.WARNING)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        threading.excepthook = hook


@contextlib.contextmanager
def workers_unheard(hush: bool) -> Iterator[None]:
    """Keeps what worker processes (and C libraries) write to the standard error from the user; ours is still shown.

    Args:
        hush: Whether to do so at all.
    """
    remark(sys.stderr, "")
    if not hush:
        yield
        return
    ours, before = os.dup(2), sys.stderr
    try:
        if _descriptor(before) == 2:
            sys.stderr = open(ours, "w", buffering=1, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr = before
        os.dup2(ours, 2)
        os.close(ours)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def stoppable(hint: str = "", told: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Has Ctrl-C and SIGTERM end what runs meanwhile as a run that was stopped, whatever libraries make of it.

    A second one, more than a second later, ends the process there and then.

    Args:
        hint: How to go on, in words.
        told: Called at once, before anything that runs is ended.

    Raises:
        RunError: It was stopped.
    """
    caught: list[int] = []
    first = 0.0

    def stop(number: int, frame: object) -> None:
        nonlocal first
        caught.append(number)
        if len(caught) == 1:
            first = time.monotonic()
            told()
            raise KeyboardInterrupt
        if time.monotonic() - first > 1:
            fault("stopped at once")
            os._exit(3)

    here = threading.current_thread() is threading.main_thread()
    signals = [s for s in (signal.SIGINT, signal.SIGTERM) if here and signal.getsignal(s) is not signal.SIG_IGN]
    before = {s: signal.signal(s, stop) for s in signals}
    try:
        with _coming_again(caught):
            yield
    except BaseException as error:
        if caught:
            name = "Ctrl-C" if caught[0] == signal.SIGINT else "SIGTERM"
            raise RunError(f"stopped by {name}{hint}") from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _coming_again(caught: list[int]) -> Iterator[None]:
    """Sends a signal again whose exception was lost in a finalizer or in a callback of the garbage collector."""
    before = sys.unraisablehook

    def lost(unraisable: sys.UnraisableHookArgs) -> None:
        if not caught or unraisable.exc_type is not KeyboardInterrupt:
            before(unraisable)
            return
        threading.Timer(0.05, os.kill, (os.getpid(), caught[0])).start()
        caught.clear()

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = before


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], None], informed: str) -> None:
        super().__init__()
        self.write, self.informed = write, informed
        self._said: set[str] = set()

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
        line = f"{record.levelname.lower()}: {record.name}: {lines[0] if lines else ''}"
        if line in self._said:
            return
        if len(self._said) < MOST_LINES:
            self._said.add(line)
        self.write(line)


def _replacing(stream: object) -> None:
    """Has a stream replace what its encoding cannot show."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # type: ignore[attr-defined]
