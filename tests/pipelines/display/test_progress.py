"""Progress: counters are exact over threads and processes, and what is shown follows from them and the clock."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from evalbeam.pipelines.display.progress import Progress, determine_phase, format_duration, show_progress
from evalbeam.transforms.runtime import counters

NONE = dict.fromkeys(counters.NAMES, 0)


class Stage:
    """A clock and counters that a test moves, and what was written."""

    def __init__(self, bar: bool, live: bool = True, width: int = 100) -> None:
        self.now, self.counts, self.stream = 0.0, dict(NONE), io.StringIO()
        self.progress = Progress(
            lambda: self.counts, self.stream, bar, lambda n: n, live, lambda: self.now, lambda: width
        )

    def at(self, now: float, **counts: int) -> str:
        """What a tick at that time writes."""
        self.now = now
        self.counts.update(counts)
        before = len(self.stream.getvalue())
        self.progress.tick()
        return self.stream.getvalue()[before:]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (7.4, "0:07"), (754, "12:34"), (3600, "1:00:00"), (12345, "3:25:45"), (-3, "0:00")],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_spending_is_shown_in_its_currency() -> None:
    stage = Stage(bar=False)
    stage.progress.currency = "EUR"
    assert "spent" not in stage.at(0, rows_read=10, calls_done=1)
    assert ", spent 0.042 EUR" in stage.at(10, calls_done=2, spent=42_000_000)
    assert ", spent 1,234.50 EUR" in stage.at(20, calls_done=3, spent=1_234_500_000_000)


@pytest.mark.parametrize(
    ("counts", "live", "phase"),
    [
        ({}, True, "reading"),
        ({"rows_read": 5}, True, "reading"),
        ({"rows_read": 5, "calls_in_flight": 1}, True, "calling"),
        ({"rows_read": 5, "calls_done": 1}, True, "calling"),
        ({"rows_read": 5, "rows_scored": 1}, False, "scoring"),
        ({"rows_read": 5, "rows_scored": 5, "rows_written": 1}, True, "writing"),
    ],
)
def test_phases(counts: dict[str, int], live: bool, phase: str) -> None:
    assert determine_phase({**NONE, **counts}, live) == phase


def test_lines_come_at_changes_and_every_ten_seconds() -> None:
    stage = Stage(bar=False)
    assert stage.at(0) == ""
    assert stage.at(5) == ""
    assert stage.at(6, rows_read=500) == ""
    assert stage.at(10.5) == "reading: 500 rows, 91/s\n"  # since 5 s: 0 s is longer ago than ten
    assert stage.at(11, rows_read=1000, rows_rejected=3, calls_in_flight=64) == (
        "calling: 0/1,000 rows, 3 unusable, 64 in flight, 0 failed\n"
    )
    assert stage.at(16, calls_done=100, calls_failed=7) == ""
    assert stage.at(21, calls_done=200) == (
        "calling: 200/1,000 rows, 3 unusable, 64 in flight, 7 failed, 20/s, ETA 0:40\n"
    )
    assert stage.at(22, calls_done=1000, calls_in_flight=0, rows_scored=1000, rows_written=10) == (
        "writing: 10/1,000 rows, 3 unusable\n"
    )


def test_calls_are_counted_where_judges_make_some() -> None:
    stage = Stage(bar=False)
    stage.progress.judged = True
    stage.at(0, rows_read=3)
    assert stage.at(1, calls_done=5, calls_in_flight=2) == "calling: 5 calls, 2 in flight, 0 failed\n"
    assert stage.at(12, calls_done=16, calls_in_flight=0).startswith("calling: 16 calls, 0 failed, ")
    assert stage.at(13, rows_scored=3, rows_written=3) == "writing: 3/3 rows\n"


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    stage = Stage(bar=False)
    stage.at(0, rows_read=10_000, calls_in_flight=1)
    for second in range(1, 101):
        stage.at(second, calls_done=second * 50)
    for second in range(101, 116):
        stage.at(second, calls_done=5000 + (second - 100) * 5)
    assert "5.0/s, ETA 16:20" in stage.at(120, calls_done=5075 + 25)[-60:]  # (10,000 - 5,100) / 5 = 980 s


def test_the_bar_is_one_line_that_fits() -> None:
    for width in (20, 40, 80, 100, 200):
        stage = Stage(bar=True, width=width)
        stage.at(0, rows_read=1_234_567)
        for now, done in ((1, 0), (2, 400_000), (9, 1_234_567)):
            text = stage.at(now, calls_done=done, calls_in_flight=64)
            assert text.startswith("\r\x1b[K")
            assert "\n" not in text
            assert len(text) - 4 < width
    assert stage.at(10, calls_in_flight=0).count("█") == 30


def test_the_bar_grows_with_the_work() -> None:
    stage = Stage(bar=True, live=False, width=120)
    stage.at(0, rows_read=300)
    fills = [stage.at(i, rows_scored=i * 30).count("█") for i in range(1, 11)]
    assert fills == [3 * i for i in range(1, 11)]


def test_remarks_stand_above_the_bar() -> None:
    stage = Stage(bar=True)
    stage.at(0, rows_read=3)
    stage.progress.say("a remark")
    assert stage.stream.getvalue().endswith("\r\x1b[Ka remark\n")
    assert "reading" in stage.at(1)


def test_counters_add_up_over_threads_and_processes() -> None:
    child = "from evalbeam.transforms.runtime import counters\nfor _ in range(1000): counters.add('rows_read', 3)"
    with counters.watched() as folder:
        children = [subprocess.Popen([sys.executable, "-c", child]) for _ in range(2)]

        def count() -> None:
            for _ in range(5000):
                counters.add("rows_read")
                counters.add("calls_in_flight", 1)
                counters.add("calls_in_flight", -1)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [c.wait() for c in children] == [0, 0]
        assert counters.totals(folder) == {**NONE, "rows_read": 4 * 5000 + 2 * 3000}
    assert not os.path.exists(folder)


def test_nothing_is_counted_where_nobody_watches() -> None:
    counters.add("rows_read", 3)
    with counters.watched() as folder:
        assert counters.totals(folder) == NONE
        counters.add("rows_read", 2)
        with counters.watched() as inner:
            counters.add("rows_read", 7)
            assert counters.totals(inner)["rows_read"] == 7
        counters.add("rows_scored", 2)
    assert counters.FOLDER not in os.environ


def test_a_folder_that_is_gone_does_no_harm() -> None:
    with counters.watched() as folder:
        os.rmdir(folder)
        counters.add("rows_read", 3)


class Narrow(io.StringIO):
    """A terminal that knows no block characters."""

    encoding = "ascii"

    def isatty(self) -> bool:
        return True


def test_a_terminal_without_block_characters_gets_lines() -> None:
    with show_progress(Narrow(), limit=3, trials=2, live=True) as progress:
        assert not progress.bar
        assert progress.expected(10) == 6
        assert progress.expected(2) == 4


def test_folders_of_killed_processes_are_taken_away_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = (
        "from evalbeam.transforms.runtime import counters\nwith counters.watched() as f: print(f, flush=True); input()"
    )
    command = [sys.executable, "-c", child]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment, "text": True}
    killed, is_detached = (subprocess.Popen(command, **pipes) for _ in range(2))  # type: ignore[call-overload]
    folders = [Path(process.stdout.readline().strip()) for process in (killed, is_detached)]
    killed.kill()
    killed.communicate()
    assert all(folder.is_dir() for folder in folders)
    with counters.watched() as own:
        assert sorted(tmp_path.iterdir()) == sorted([folders[1], Path(own)])
    is_detached.communicate("\n")
    assert list(tmp_path.iterdir()) == []
