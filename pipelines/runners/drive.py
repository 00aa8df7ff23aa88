"""Runs a pipeline on its engine to the end: waits, ends it where it is told to, and says why it failed."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import FlinkRunnerOptions, GoogleCloudOptions, PipelineOptions, SetupOptions

from ...schemas.errors import RunError
from . import options as engines
from .flink import FlinkCluster
from .jobs import Job, Unreachable
from .lease import Holder
from .packages import Packages

POLL = 1.0
"""Seconds between two looks at a job."""
PATIENCE = 300.0
"""Seconds for which a cluster may fail to answer before its job is given up."""


def prepare_job(options: PipelineOptions, holder: Holder, packages: Packages) -> None:
    """Sets what is decided at the last moment: the job's name, its packages, and all of a Flink cluster's slots.

    Raises:
        Unreachable: The Flink cluster does not answer.
    """
    logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)  # says that servers end at the end
    setup = options.view_as(SetupOptions)
    setup.extra_packages = [*(setup.extra_packages or ()), *packages.wheels] or None
    setup.requirements_file = setup.requirements_file or packages.requirements
    cluster, flink = engines.flink_cluster(options), options.view_as(FlinkRunnerOptions)
    if holder.master is not None:
        options.view_as(GoogleCloudOptions).job_name = holder.job
    if cluster is not None and flink.parallelism < 1:
        flink.parallelism = max(1, cluster.slots())


def drive(pipeline: Any, options: PipelineOptions, holder: Holder) -> None:
    """Starts a pipeline and waits for it; what interrupts the wait ends the job, so that no more calls are made.

    Raises:
        RunError: The job failed, was cancelled, or took longer than it may.
    """
    cluster = engines.flink_cluster(options)
    limit = options.view_as(engines.EngineOptions).time_limit
    result = None
    try:
        result = pipeline.run()
        if cluster is not None:
            _drop_jar(result)
            follow(cluster, holder.job or "", limit, lambda: _refused(result))
        elif limit is None:
            result.wait_until_finish()
        elif result.wait_until_finish(duration=round(limit * 1000)) not in ("DONE", "FAILED", "CANCELLED"):
            raise _too_long(limit)
    except BaseException:
        with contextlib.suppress(Exception):
            if cluster is not None:
                cluster.stop(holder.job or "")
            elif result is not None and not engines.is_local(options):
                result.cancel()
        raise
    finally:
        if cluster is not None and result is not None:
            _tidy(result)


def hand_over(pipeline: Any, options: PipelineOptions, holder: Holder) -> None:
    """Starts a pipeline that goes on without this process."""
    pipeline.run()


def follow(
    cluster: FlinkCluster,
    name: str,
    limit: float | None = None,
    refused: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Waits for the job of a name on a Flink cluster.

    Args:
        limit: Seconds it may take.
        refused: Called while the job has not arrived; raises where it never will.

    Raises:
        RunError: It did not end well, not in time, or the cluster has lost it.
    """
    began = heard = clock()
    arrived = False
    while True:
        job, trouble = None, f"the job {name} does not arrive at {cluster.title}"
        try:
            job = cluster.job(name)
        except Unreachable as error:
            trouble = str(error)
        else:
            if arrived and job is None:
                raise RunError(f"{cluster.title} has lost the job {name}: it was restarted")
        if job is not None:
            arrived, heard = True, clock()
            if job.ended:
                return _ended(cluster, job)
        elif not arrived:
            refused()
        if clock() - heard > PATIENCE:
            raise RunError(f"{trouble}, for {PATIENCE:.0f} seconds now")
        if limit is not None and clock() - began > limit:
            raise _too_long(limit)
        sleep(POLL)


def _ended(cluster: FlinkCluster, job: Job) -> None:
    if job.state == "FINISHED":
        return
    if job.state == "CANCELED":
        raise RunError(f"the job {job.id} was cancelled on {cluster.title}")
    raise RunError(f"the job {job.id} failed on {cluster.title}: {cluster.cause(job.id)}"[:2000])


def _refused(result: Any) -> None:
    """Raises what a job server says of a job that it failed to submit."""
    if result.state in ("FAILED", "CANCELLED"):
        result.wait_until_finish()


def _too_long(limit: float) -> RunError:
    return RunError(f"stopped after {limit:g} seconds (time_limit); the same command goes on")


def _drop_jar(result: Any) -> None:
    """Deletes the uber jar of a job that was accepted: Flink has a copy of its own, and a client that is killed later
    could not."""
    with contextlib.suppress(AttributeError):  # of a job server, which has uploaded nothing
        result._job_service._jobs[result._job_id].delete_jar()


def _tidy(result: Any) -> None:
    """Has Beam give up what it holds for a job."""
    with contextlib.suppress(Exception):
        result._cleanup()
