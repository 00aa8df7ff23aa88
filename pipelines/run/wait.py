"""Waits for a run that is active elsewhere, until its manifest is there, or its job ended without one."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...schemas.errors import ConfigError, RunError
from ...schemas.run_folder import RunFolder
from ...transforms.io import storage
from ..runners import lease
from ..runners.clusters import jobs_at
from ..runners.jobs import PATIENCE, Unreachable
from .result import EvaluationResult

POLL = 2.0
"""Seconds between two looks."""


def wait(
    output: str,
    timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> EvaluationResult:
    """Waits for a run, wherever it is active.

    Args:
        output: Folder of the run.
        timeout: Seconds to wait at most; default: as long as it takes.
        clock, sleep: For tests.

    Raises:
        ConfigError: No run was ever started there.
        RunError: It ended without a manifest, cannot be asked any more, or takes longer than `timeout`.
    """
    began = heard = clock()
    while True:
        found = lease.latest(output)  # before the manifest: a run writes that before it gives its lease back
        state = "gone" if found is None or found.released else found.holder.state()
        if state != "running" and storage.exists(RunFolder(output).manifest):
            return EvaluationResult.load(output)
        if found is None:
            raise ConfigError(f"no run at {output!r}", where="wait", allowed="the output folder of a run")
        if state == "gone":
            raise RunError(
                f"{output}: the run ended without a manifest{_why(found.holder)}; run the same command again to resume"
            )
        heard = clock() if state == "running" else heard
        if clock() - heard > PATIENCE:
            what = f"{output}: nothing was heard of the run for {PATIENCE:.0f} seconds"
            raise RunError(f"{what}; {lease.how_to_free(output, found)}")
        if timeout is not None and clock() - began > timeout:
            raise RunError(f"{output}: the run is still active after {timeout:g} seconds")
        sleep(POLL)


def _why(holder: lease.Holder) -> str:
    if holder.master is None or holder.job is None:
        return ""
    service = jobs_at(holder.master)
    try:
        job = service.job(holder.job)
        cause = service.cause(job.id) if job is not None else ""
    except Unreachable:
        return ""
    if job is None:
        return f" ({service.title} does not know its job)"
    return f" (job {job.id} on {service.title}: {job.state}{': ' + cause if cause else ''})"
