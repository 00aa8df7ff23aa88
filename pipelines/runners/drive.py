"""Runs a pipeline on its engine: starts it, waits for it, stops it on time limits, and reports why it failed."""

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
from .jobs import PATIENCE, Job, Unreachable
from .lease import Holder
from .packages import Packages

POLL = 1.0
"""Seconds between two looks at a job."""


def prepare_job(options: PipelineOptions, holder: Holder, packages: Packages) -> None:
    """Sets the options that are known last: the job's name, its packages, and the parallelism on a Flink cluster.

    Raises:
        Unreachable: The Flink cluster does not answer.
    """
    logging.getLogger("apache_beam.utils.subprocess_server").setLevel(logging.ERROR)  # it would report that servers end
    setup = options.view_as(SetupOptions)
    setup.extra_packages = [*(setup.extra_packages or ()), *packages.wheels] or None
    setup.requirements_file = setup.requirements_file or packages.requirements
    cluster, flink = engines.flink_cluster(options), options.view_as(FlinkRunnerOptions)
    if holder.master is not None:
        options.view_as(GoogleCloudOptions).job_name = holder.job
    if cluster is not None and flink.parallelism < 1:
        flink.parallelism = max(1, cluster.slots())


def drive(pipeline: Any, options: PipelineOptions, holder: Holder) -> None:
    """Starts a pipeline and waits for it. Whatever interrupts the wait cancels the job, so that no more calls are made.

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


def submit_job(pipeline: Any, options: PipelineOptions, holder: Holder) -> None:
    """Starts a pipeline that continues without this process."""
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
        limit: Most seconds of the job.
        refused: Called while the job has not arrived; raises if it never will.

    Raises:
        RunError: The job failed, was cancelled or took too long, or the cluster has lost it.
    """
    began = heard = clock()
    arrived = False
    while True:
        job, trouble = None, f"the job {name} has not arrived at {cluster.title}"
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
    """Raises the job server's error of a job that it failed to submit."""
    if result.state in ("FAILED", "CANCELLED"):
        result.wait_until_finish()


def _too_long(limit: float) -> RunError:
    return RunError(f"stopped after {limit:g} seconds (time_limit); run the same command again to resume")


def _drop_jar(result: Any) -> None:
    """Deletes the uber jar of a job that was accepted: Flink has a copy of its own, and a client that is killed later
    could not.

    Private API of Beam's Flink uber jar job server: `_job_service._jobs[id].delete_jar()`. If it changes, the jar
    stays on the cluster, and nothing else breaks.
    """
    with contextlib.suppress(AttributeError):  # a job server has no such attributes, and has uploaded nothing
        result._job_service._jobs[result._job_id].delete_jar()


def _tidy(result: Any) -> None:
    """Makes Beam release what it holds for a job.

    Private API of Beam: `PipelineResult._cleanup`, which Beam calls at the end of `wait_until_finish`. If it goes,
    servers that this process started stay until it ends.
    """
    with contextlib.suppress(Exception):
        result._cleanup()
