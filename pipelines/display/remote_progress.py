"""Progress of a run on a remote engine: its journal tells the number of calls, the engine tells the job's state.

The engine's own counters cover only the last attempt of a stage, and only after it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from ...schemas.errors import EvalbeamError
from ...schemas.run_folder import JUDGES, RunFolder
from ...transforms.io import storage
from ...transforms.journal.segments import OPEN, Torn, read_pieces
from ...transforms.runtime.counters import NAMES
from ..runners import lease
from ..runners.clusters import jobs_at
from .progress import Progress, can_draw, tick_regularly

LOCAL_TICK, REMOTE_TICK = 2.0, 10.0
"""Seconds between two readings of a journal on a local disk and on object storage."""


class JournalCounts:
    """Counts the calls in the journals of a run; reads each byte only once.

    Args:
        output: Folder of the run.
    """

    def __init__(self, output: str) -> None:
        self._folder = RunFolder(output).journals
        self._read: dict[str, int] = {}
        self._counts: dict[str, int] = dict.fromkeys(NAMES, 0)

    def __call__(self) -> Mapping[str, int]:
        """Returns all counters; those that a journal does not tell (all but `calls_done`, `calls_failed`) are 0."""
        for path, size in storage.matched_in(self._folder, "*/*/seg-*"):
            of_judges = path.split("/")[-3] == JUDGES
            if not of_judges and size > self._read.get(path.removesuffix(OPEN), 0):
                self._count(path)
        return self._counts

    def _count(self, path: str) -> None:
        name = path.removesuffix(OPEN)
        torn: list[Torn] = []  # reported by whoever reads the segment's answers
        for piece, _, heads in read_pieces(path, torn.append, self._read.get(name, 0)):
            self._read[name] = piece.offset + piece.size
            self._counts["calls_done"] += len(heads)
            self._counts["calls_failed"] += sum(kind != "ok" for _, _, kind, _ in heads)
        if any(t.damaged for t in torn):
            self._read[name] = 1 << 62


class JobState:
    """State of a run's job on its engine; the run's lease names the job.

    Args:
        output: Folder of the run.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._holder: lease.Holder | None = None

    def __call__(self) -> str:
        """Returns a text such as "RUNNING, 3 of 14 stages done"; "" if nothing is known."""
        if self._holder is None:
            found = lease.latest(self._output)
            self._holder = None if found is None or found.released else found.holder
        holder = self._holder
        if holder is None or holder.master is None or holder.job is None:
            return ""
        try:
            service = jobs_at(holder.master, timeout=5)
            job = service.job(holder.job)
            if job is None:
                return "submitting"
            stages = service.stages(job.id)
        except EvalbeamError:
            return "the engine does not answer"
        if not stages:
            return job.state
        return f"{job.state}, {stages.get('FINISHED', 0)} of {sum(stages.values())} stages done"


@contextmanager
def show_remote_progress(
    stream: TextIO, output: str, live: bool, state: Callable[[], str] | None = None, judged: bool = False
) -> Iterator[Progress]:
    """Shows the progress of a run whose workers are on other machines.

    Args:
        stream: Output stream.
        output: Folder of the run.
        live, judged: As for `Progress`.
        state: Returns the state of the job; default: from the run's lease.
    """
    progress = Progress(
        read=JournalCounts(output),
        stream=stream,
        bar=can_draw(stream),
        live=live,
        judged=judged,
        state=state or JobState(output),
    )
    with tick_regularly(progress, REMOTE_TICK if "://" in output else LOCAL_TICK):
        yield progress
