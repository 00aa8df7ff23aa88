"""Worker processes of the local engine: how many pay, and their start.

A worker that is started as a process of its own imports Beam anew: two seconds of a processor. A command forks its
workers instead, before it has threads or connections.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import orjson

from ...transforms.runtime import counters
from . import local_worker
from .worker import serve

SHARE = 50 << 20
"""Bytes of a dataset for each worker process at least: some 50,000 rows of 1 kB, which take two seconds."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_forked: list[Forked] = []


def local_workers(count: int) -> list[str]:
    """Returns Beam's flags for a number of worker processes, at least 1, on the local engine."""
    return ["--direct_running_mode=multi_processing", f"--direct_num_workers={count}"] if count > 1 else []


def fitting_workers(size: int) -> int:
    """Returns the number of worker processes that pays for a dataset of so many bytes, at least 1."""
    return max(1, min(processors(), size // SHARE))


def processors() -> int:
    """Returns the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # a container's share, "max" if it has no bound
        quota, period = _QUOTA.read_text().split()
        count = min(count, int(quota) // int(period))
    return max(1, count)


class Forked:
    """A copy of this process that waits to become a worker, with the methods of `subprocess.Popen` that are used here.

    It ends when `stdin` closes, at the latest with its parent.

    Args:
        quiet: Discards what it writes to standard error.
    """

    def __init__(self, quiet: bool) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _become_worker(read, [write, *(other.stdin.fileno() for other in _forked)], quiet)
        os.close(read)
        self.stdin = open(write, "wb", buffering=0)  # noqa: SIM115
        self._end = os.pidfd_open(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the process.

        Raises:
            subprocess.TimeoutExpired: It has not ended within `timeout` seconds.
        """
        if self.returncode is not None:
            return self.returncode
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        with self._lock:
            if self.returncode is None:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                os.close(self._end)
        return self.returncode

    def kill(self) -> None:
        """Ends the process at once."""
        with self._lock:
            if self.returncode is None:
                os.kill(self.pid, signal.SIGKILL)


@contextmanager
def forked_workers(count: int, quiet: bool) -> Iterator[None]:
    """Forks worker processes for an engine that starts during the block; those it does not take end with the block.

    It forks none if a copy of this process might not work: with other threads, or not on Linux.

    Args:
        count: Worker processes; 1 is none.
        quiet: Discards what they write to standard error.
    """
    try:
        if count > 1 and sys.platform == "linux" and threading.active_count() == 1:
            sys.stdout.flush()
            sys.stderr.flush()
            for _ in range(count):
                _forked.append(Forked(quiet))
        yield
    finally:
        while _forked:
            process = _forked.pop()
            process.kill()
            process.wait()
            process.stdin.close()


def start_worker(environment: dict[str, str]) -> subprocess.Popen[bytes] | Forked:
    """Starts a worker process with an environment; it ends when its standard input closes."""
    if not _forked:
        command = [sys.executable, "-m", local_worker.__name__]
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    process = _forked.pop(0)
    with contextlib.suppress(BrokenPipeError):  # it has ended, which its exit code will tell
        process.stdin.write(orjson.dumps([environment, sys.path]) + b"\n")
    return process


def _become_worker(pipe: int, inherited: Sequence[int], quiet: bool) -> NoReturn:
    """Waits for the environment of a worker, and is one until the engine ends it."""
    code = 1
    try:
        for end in inherited:  # else the pipes would not close with the parent
            os.close(end)
        empty = os.open(os.devnull, os.O_RDWR)
        os.dup2(empty, 0)
        if quiet:
            os.dup2(empty, 2)
        with open(pipe, "rb", closefd=False) as stream:
            told = stream.readline()
        if told:
            local_worker.end_with_parent(pipe)
            environment, sys.path[:] = orjson.loads(told)  # where the user's code was found after the fork
            os.environ |= environment
            counters.follow_environment()
            code = serve()
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code)
