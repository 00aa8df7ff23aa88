"""Worker processes of the local engine: how many, and a start before they are needed.

They import Beam while this process does, and are told by a line of JSON on their standard input to which engine they
belong. Without Beam here, so that the start comes first.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

import orjson

from ...schemas.config.evaluation import EvaluationConfig
from . import local_worker

SHARE = 50 << 20
"""Bytes of a dataset that take as long as the start of a worker process, twice: some 50,000 rows of 1 kB."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_spare: list[subprocess.Popen[bytes]] = []


def local_workers(count: int) -> list[str]:
    """Returns Beam's flags for a number of worker processes, at least 1, on the local engine."""
    return ["--direct_running_mode=multi_processing", f"--direct_num_workers={count}"] if count > 1 else []


def fitting_workers(config: EvaluationConfig, flags: Sequence[str]) -> int:
    """Returns the number of worker processes that pays: 1 unless the run only scores many recorded rows here.

    Args:
        config: What the user asked for.
        flags: Options of Beam; one that chooses an engine or its workers is left alone.
    """
    chosen = any(flag.startswith(("--runner", "--direct_")) for flag in flags)
    calls = config.agent.target is not None or config.agent.type not in ("auto", "recorded") or config.judges
    if chosen or calls or config.dataset.limit is not None:
        return 1
    return max(1, min(processors(), _size(config.dataset.paths) // SHARE))


def processors() -> int:
    """Returns the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # a container's share, "max" if it has no bound
        quota, period = _QUOTA.read_text().split()
        count = min(count, int(quota) // int(period))
    return max(1, count)


def _size(paths: Sequence[str]) -> int:
    """Returns the bytes of files of this machine; other files are not looked at."""
    found = [path for pattern in paths for path in ([pattern] if os.path.exists(pattern) else glob(pattern))]
    inside = [os.path.join(path, name) for path in found if os.path.isdir(path) for name in os.listdir(path)]
    return sum(os.path.getsize(path) for path in (*found, *inside) if os.path.isfile(path))


@contextmanager
def started_early(count: int, quiet: bool) -> Iterator[None]:
    """Starts worker processes that the engine takes during the block; those it does not take end with the block.

    Args:
        count: Worker processes; 1 is none.
        quiet: Discards what they write to standard error.
    """
    _spare.extend(_start(subprocess.DEVNULL if quiet else None) for _ in range(count if count > 1 else 0))
    try:
        yield
    finally:
        while _spare:
            process = _spare.pop()
            process.kill()
            process.communicate()


def take(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Returns a worker process and tells it its environment; it ends when its standard input closes."""
    process = _spare.pop(0) if _spare else _start(None)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended, as its exit code tells
        process.stdin.write(orjson.dumps(environment) + b"\n")
        process.stdin.flush()
    return process


def _start(errors: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", local_worker.__name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors)
