"""Progress display of a run: a bar on a terminal, occasional lines in a log."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from ...transforms.calls.prices import NANO
from ...transforms.runtime import counters
from .console import remark
from .costs import format_money

TICK = 0.2
"""Seconds between two readings of the counters."""
LINE_EVERY = 10.0
"""Seconds between two lines if the output is not a terminal."""
RATE_OVER = 10.0
"""Seconds over which the rate is measured."""

READING, CALLING, SCORING, WRITING = "reading", "calling", "scoring", "writing"
_FULL, _EMPTY = "█", "░"
_ERASE = "\r\x1b[K"


@dataclass
class Progress:
    """Renders counters as text, one `tick` at a time.

    Attributes:
        read: Returns the summed counters of all processes (`counters.NAMES`).
        stream: Output stream.
        bar: Whether `stream` is a terminal, on which each tick redraws the last line.
        expected: Function from rows read to expected examples.
        live: Whether an agent or judges are called.
        clock: Returns seconds from an arbitrary start.
        width: Returns the columns of the terminal.
        state: Returns the engine's state of the run in a few words, or "".
        currency: Unit of what the counters say was spent: "EUR", "USD at list prices", or "" if it is unknown.
        judged: Whether judges are called; the number of their calls is not known beforehand.
    """

    read: Callable[[], Mapping[str, int]]
    stream: TextIO
    bar: bool
    expected: Callable[[int], int] = lambda rows: rows
    live: bool = True
    clock: Callable[[], float] = time.monotonic
    width: Callable[[], int] = lambda: shutil.get_terminal_size().columns
    state: Callable[[], str] = lambda: ""
    judged: bool = False
    currency: str = ""
    _started: float | None = None
    _phase: str = ""
    _phase_since: float = 0.0
    _said: float = 0.0
    _seen: deque[tuple[float, int]] = field(default_factory=deque)
    _drawn: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tick(self) -> None:
        """Reads the counters once and shows them if an update is due."""
        with self._lock:
            self._tick()

    def say(self, text: str) -> None:
        """Writes a line above the bar."""
        with self._lock:
            self._clear()
            remark(self.stream, text + "\n")

    def clear(self) -> None:
        """Erases the bar."""
        with self._lock:
            self._clear()

    def _tick(self) -> None:
        now, counts = self.clock(), self.read()
        if self._started is None:
            self._started = self._said = now
        phase = determine_phase(counts, self.live)
        changed = phase != self._phase
        if changed:
            self._phase, self._phase_since = phase, now
            self._seen.clear()
        self._seen.append((now, self._done(counts)))
        while now - self._seen[0][0] > RATE_OVER and len(self._seen) > 2:
            self._seen.popleft()
        if self.bar:
            remark(self.stream, _ERASE + self._line(counts, self.width() - 1))
            self._drawn = True
        elif (changed and any(counts.values())) or now - self._said >= LINE_EVERY:
            self._said = now
            remark(self.stream, self._text(counts) + "\n")

    def _clear(self) -> None:
        if self._drawn:
            remark(self.stream, _ERASE)
            self._drawn = False

    def _done(self, counts: Mapping[str, int]) -> int:
        names = {READING: "rows_read", CALLING: "calls_done", SCORING: "rows_scored", WRITING: "rows_written"}
        return counts[names[self._phase]]

    def _total(self, counts: Mapping[str, int]) -> int | None:
        unknown = self._phase == READING or self._counts_calls
        return None if unknown else self.expected(counts["rows_read"]) or None

    @property
    def _counts_calls(self) -> bool:
        return self._phase == CALLING and self.judged

    def _rate(self) -> float | None:
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return (after - before) / (last - first) if last > first and after > before else None

    def _text(self, counts: Mapping[str, int]) -> str:
        done, total, rate = self._done(counts), self._total(counts), self._rate()
        unit = "calls" if self._counts_calls else "rows"
        parts = [f"{done:,} {unit}" if total is None else f"{done:,}/{total:,} {unit}"]
        if counts["rows_rejected"]:
            parts.append(f"{counts['rows_rejected']:,} unusable")
        if self._phase == CALLING:
            parts += [f"{counts['calls_in_flight']:,} in flight"] if counts["calls_in_flight"] else []
            parts.append(f"{counts['calls_failed']:,} failed")
        if counts["spent"]:
            parts.append(f"spent {format_money(counts['spent'] / NANO, self.currency)}")
        if rate is not None:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
            if total is not None and total > done:
                parts.append(f"ETA {format_duration((total - done) / rate)}")
        parts += [said] if (said := self.state()) else []
        return f"{self._phase}: " + ", ".join(parts)

    def _line(self, counts: Mapping[str, int], width: int) -> str:
        text, total = self._text(counts), self._total(counts)
        elapsed = format_duration(self.clock() - (self._started or 0.0))
        room = width - len(text) - len(elapsed) - 4
        if total and room >= 8:
            size = min(room, 30)
            full = min(size, size * self._done(counts) // total)
            text = f"{_FULL * full}{_EMPTY * (size - full)}  {text}"
        line = f"{text}  {elapsed}"
        return line if len(line) <= width else text[:width]


def determine_phase(counts: Mapping[str, int], live: bool) -> str:
    """Returns the phase of a run.

    Phases do not overlap: all rows are read before the first call, all scores are computed before the first is written.
    """
    if counts["rows_written"]:
        return WRITING
    if counts["calls_done"] or counts["calls_in_flight"] or counts["rows_scored"]:
        return CALLING if live else SCORING
    return READING


def format_duration(seconds: float) -> str:
    """Formats seconds as 0:07, 12:34 or 3:25:45."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


@contextmanager
def show_progress(
    stream: TextIO, limit: int | None, trials: int, live: bool, judged: bool = False, currency: str = ""
) -> Iterator[Progress]:
    """Shows the progress of this process and its child processes during the block.

    Args:
        stream: Output stream.
        limit: Maximum number of rows; `None`: all.
        trials: Examples for each row.
        live, judged, currency: As for `Progress`.
    """
    with counters.watched() as folder:
        progress = Progress(
            read=lambda: counters.totals(folder),
            stream=stream,
            bar=can_draw(stream),
            expected=lambda rows: (rows if limit is None else min(rows, limit)) * trials,
            live=live,
            judged=judged,
            currency=currency,
        )
        with tick_regularly(progress, TICK):
            yield progress


@contextmanager
def tick_regularly(progress: Progress, every: float) -> Iterator[None]:
    """Ticks a progress display every `every` seconds in a thread during the block; erases its bar at the end."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(every):
            progress.tick()

    ticker = threading.Thread(target=tick, name="evalbeam-progress", daemon=True)
    ticker.start()
    try:
        yield
    finally:
        ended.set()
        ticker.join()
        progress.clear()


def can_draw(stream: TextIO) -> bool:
    """Returns true if a stream is a terminal that can show a bar."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and _can_encode(stream, _FULL + _EMPTY)


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
