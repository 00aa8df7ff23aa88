"""Output to the user: results to standard output, one-line messages to standard error."""

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
"""Maximum length of one message, in characters."""
MOST_LINES = 1000
"""Maximum number of warnings remembered to show each only once."""


def open_streams() -> None:
    """Opens missing standard streams on the null device; else the next opened file would take their descriptor."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:  # lower descriptors are open, so the next one opened gets this number
            os.open(os.devnull, os.O_RDWR)
        setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def say(text: str) -> None:
    """Writes a result to standard output; a closed pipe (`| head`) is ignored.

    Raises:
        RunError: Standard output cannot be written, for example because the disk is full.
    """
    try:
        _replace_unencodable(sys.stdout)
        print(text.rstrip("\n"), flush=True)
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  the interpreter flushes it when it ends
        if not isinstance(error, BrokenPipeError):
            raise RunError(f"cannot write to standard output: {error.strerror}") from error


def say_in_colour(text: str) -> None:
    """Writes a result to standard output as `say` does; on a terminal with verdicts in colour and faint bars.

    Colours are left out if `NO_COLOR` is set, see no-color.org, and wherever rich finds that there are none.
    """
    if not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.text import Text

    styled = Text(text.rstrip("\n"))
    styled.highlight_regex(r"\b(PASSED|BETTER)\b", "green")
    styled.highlight_regex(r"\b(FAILED|WORSE|STOPPED|NO RESULT)\b", "bold red")
    styled.highlight_regex(r"\b(NOT_EVALUATED|INCONCLUSIVE)\b", "yellow")
    styled.highlight_regex("·{2,}", "bright_black")
    console = Console()
    with console.capture() as drawn:
        console.print(styled, soft_wrap=True)  # lines fit already, except for paths, which must not be broken
    say(drawn.get())


def note(text: str) -> None:
    """Writes a message to standard error."""
    remark(sys.stderr, f"evalbeam: {one_line(text)}\n")


def remark(stream: TextIO, text: str) -> None:
    """Writes and flushes text whose loss is acceptable: a closed terminal or a full disk is ignored."""
    with contextlib.suppress(OSError, ValueError):
        stream.write(text)
        stream.flush()


def fault(text: str) -> None:
    """Writes an error message to standard error."""
    note(f"error: {text}")


def one_line(text: str) -> str:
    """Returns the text on one line, at most `MOST_CHARACTERS` long, with control characters replaced."""
    words = " ".join(text.split())
    shown = "".join(c if is_printable(c) else "\N{REPLACEMENT CHARACTER}" for c in words)
    if len(shown) <= MOST_CHARACTERS:
        return shown
    return f"{shown[: MOST_CHARACTERS * 3 // 4]} … {shown[-MOST_CHARACTERS // 4 :]}"


def is_printable(character: str) -> bool:
    """Returns true if a character is safe on a terminal; joiners are: Persian, Indic scripts and emoji need them."""
    return character.isprintable() or character in "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


def width() -> int:
    """Returns the columns available for a table; 160 if standard output is not a terminal, enough for long names."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 160


@contextlib.contextmanager
def logs(debug: bool, write: Callable[[str], None], informed: str = "") -> Iterator[None]:
    """Shows the warnings of other libraries and of the agent, each once and on one line; with `debug`, all logs as is.

    Beam's own warnings are dropped: those that matter become the error of the run.

    Args:
        debug: Show all logs.
        write: Function that writes one line.
        informed: Name prefix of Beam's loggers whose messages are shown nevertheless; "" for none.
    """
    root = logging.getLogger()
    level, handlers, hook = root.level, root.handlers, threading.excepthook
    if debug:
        root.handlers = handlers or [logging.StreamHandler()]
        root.setLevel(logging.INFO)
    else:
        threading.excepthook = lambda _: None  # Beam's threads die with exceptions when the run ends
        root.handlers = [_Lines(write, informed)]
        root.setLevel(logging.INFO if informed else logging.WARNING)
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        threading.excepthook = hook


@contextlib.contextmanager
def silence_workers(hush: bool) -> Iterator[None]:
    """Discards what worker processes and C libraries write to standard error; `sys.stderr` of this process is kept.

    Args:
        hush: If false, nothing is discarded.
    """
    remark(sys.stderr, "")
    if not hush:
        yield
        return
    ours, before = os.dup(2), sys.stderr
    try:
        if _get_descriptor(before) == 2:
            sys.stderr = open(ours, "w", buffering=1, encoding=before.encoding, errors=before.errors, closefd=False)  # noqa: SIM115
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        sys.stderr = before
        os.dup2(ours, 2)
        os.close(ours)


def _get_descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def stoppable(hint: str = "", told: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Turns Ctrl-C and SIGTERM during the block into a stopped run, whatever libraries do with KeyboardInterrupt.

    A second signal, more than a second later, exits the process immediately.

    Args:
        hint: Text appended to the error, such as how to resume.
        told: Called first in the signal handler, before the exception is raised.

    Raises:
        RunError: A signal arrived.
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
            fault("stopped immediately")
            os._exit(3)

    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {s: old for s in signals if (old := signal.getsignal(s)) is not signal.SIG_IGN}
    try:
        with _resend_lost_signal(caught):  # first: a signal may be lost from the moment that it has a handler
            for number in before:
                signal.signal(number, stop)
            yield
    except BaseException as error:
        if caught:
            raise RunError(f"stopped by {'Ctrl-C' if caught[0] == signal.SIGINT else 'SIGTERM'}{hint}") from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _resend_lost_signal(caught: list[int]) -> Iterator[None]:
    """Resends a signal whose KeyboardInterrupt was swallowed in a finalizer or in a garbage collector callback."""
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
        except Exception:  # a log call with wrong arguments
            lines = [str(record.msg)]
        line = f"{record.levelname.lower()}: {record.name}: {lines[0] if lines else ''}"
        if line in self._said:
            return
        if len(self._said) < MOST_LINES:
            self._said.add(line)
        self.write(line)


def _replace_unencodable(stream: object) -> None:
    """Makes a stream replace characters that its encoding lacks."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # type: ignore[attr-defined]
