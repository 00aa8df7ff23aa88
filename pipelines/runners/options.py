"""Beam's options, and our defaults for each engine."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    PrismRunnerOptions,
    SetupOptions,
    StandardOptions,
    WorkerOptions,
)

from ...schemas.errors import ConfigError
from ...transforms.registry import require_module
from .dataflow import address
from .flink import FlinkCluster

ENGINES = ("DirectRunner", "PrismRunner", "FlinkRunner", "DataflowRunner")
WORKER = "evalbeam-worker"
"""Command of a worker process that an engine starts by itself; see `worker`."""
PRISM_LIMIT = 3600.0
"""Most seconds of a run on Prism unless `--time_limit` is given: Prism can hang if a worker fails to start."""
_EMBEDDED = ("[local]", "[auto]")
_DATAFLOW = "https://dataflow.googleapis.com"


class EngineOptions(PipelineOptions):
    """Options of evalbeam, and options of engines that Beam's Python SDK does not know."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--time_limit", type=float, help="Seconds after which a run on Prism or Flink is ended.")
        parser.add_argument(
            "--flink_submission",
            choices=["uber_jar", "job_server"],
            help="How a job reaches a Flink cluster: as one jar by REST, or by a job server started here.",
        )
        parser.add_argument(
            "--execution_mode_for_batch",
            choices=["PIPELINED", "PIPELINED_FORCED", "BATCH", "BATCH_FORCED"],
            help="How Flink passes data between the stages of a job.",
        )


class Views(PipelineOptions):
    """Options that create each of their views once.

    Beam takes hundreds of views while it builds a graph, and for each it sets up a parser and parses all flags.
    """

    def view_as(self, cls: Any) -> Any:
        """Returns the view; all views share their values."""
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]


def pipeline_options(flags: Sequence[str]) -> PipelineOptions:
    """Parses command-line flags such as `--runner=FlinkRunner`, and sets our defaults for the engine.

    Raises:
        ConfigError: A flag is no option of Beam, or the engine is not supported.
    """
    options = PipelineOptions(list(flags))
    unknown = options.view_as(_NoOptions).unknown(flags)
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]!r}", allowed="options of evalbeam run, and Beam's own")
    name = engine(options)
    if name not in ENGINES:
        raise ConfigError(f"found {name!r}", where="--runner", allowed=", ".join(ENGINES))
    own = options.view_as(EngineOptions)
    if name != "DirectRunner" and options.view_as(DirectOptions).direct_running_mode == "multi_processing":
        raise ConfigError(f"{name} has workers of its own", where="--workers", allowed="the local engine, DirectRunner")
    if name == "PrismRunner":
        _prefer_prism(options, own)
    elif name == "FlinkRunner":
        _prefer_flink(options, own)
    elif name == "DataflowRunner":
        _prefer_dataflow(options)
    if own.time_limit is not None and name not in ("PrismRunner", "FlinkRunner"):
        raise ConfigError(f"{name} has no limit of its own", where="--time_limit", allowed="Prism or Flink")
    return options


def _prefer_prism(options: PipelineOptions, own: EngineOptions) -> None:
    """Prefers the binary on the PATH to a download, and sets a time limit, since Prism may hang."""
    prism = options.view_as(PrismRunnerOptions)
    prism.prism_location = prism.prism_location or shutil.which("prism")
    if own.time_limit is None:
        own.time_limit = PRISM_LIMIT


def _prefer_flink(options: PipelineOptions, own: EngineOptions) -> None:
    """Prefers an uber jar, workers started by TaskManagers, and batch mode, which repeats no finished stage."""
    flink, portable = options.view_as(FlinkRunnerOptions), options.view_as(PortableOptions)
    own.execution_mode_for_batch = own.execution_mode_for_batch or "BATCH_FORCED"
    if "flink_version" not in options.get_all_options(drop_default=True):
        flink.flink_version = "1.20"
    if flink.flink_master in _EMBEDDED and portable.job_endpoint is None:
        flink.flink_master = "[local]"
        return
    flink.flink_submit_uber_jar = own.flink_submission != "job_server" and portable.job_endpoint is None
    if portable.environment_type is None:
        portable.environment_type = "PROCESS"
        portable.environment_config = portable.environment_config or json.dumps({"command": WORKER})


def _prefer_dataflow(options: PipelineOptions) -> None:
    """Runs the image as it is: the main module of this process is not pickled, and no SDK is installed."""
    require_module("google.cloud.dataflow_v1beta3", "dataflow", "DataflowRunner", "--runner")
    options.view_as(SetupOptions).save_main_session = False
    if options.view_as(WorkerOptions).sdk_container_image and options.view_as(SetupOptions).sdk_location == "default":
        options.view_as(SetupOptions).sdk_location = "container"


def use_workers(options: PipelineOptions, count: int) -> None:
    """Sets a number of worker processes on the local engine."""
    direct = options.view_as(DirectOptions)
    direct.direct_running_mode, direct.direct_num_workers = "multi_processing", count


class _NoOptions(PipelineOptions):
    """Defines no option; used to find flags that no options class of Beam defines."""

    def unknown(self, flags: Sequence[str]) -> list[str]:
        if not flags:  # collecting all options of Beam takes longer than building a small graph
            return []
        known = self.get_all_options(drop_default=False)
        found = []
        for flag in flags:
            if flag.startswith("--"):
                name = flag[2:].partition("=")[0]
                if name not in known and name.removeprefix("no_") not in known:
                    found.append(flag)
        return found


def engine(options: PipelineOptions) -> str:
    """Returns the name of the engine, one of `ENGINES` if the options have been checked."""
    return options.view_as(StandardOptions).runner or "DirectRunner"


def is_local(options: PipelineOptions) -> bool:
    """Returns whether the pipeline runs on the local engine: in this process or its worker processes."""
    return engine(options) == "DirectRunner"


def has_worker_processes(options: PipelineOptions) -> bool:
    """Returns whether the pipeline runs in worker processes of the local engine."""
    return is_local(options) and options.view_as(DirectOptions).direct_running_mode == "multi_processing"


def in_this_process(options: PipelineOptions) -> bool:
    """Returns whether the pipeline runs in this process alone, so that objects need not be pickled."""
    return is_local(options) and not has_worker_processes(options)


def calls_from_here(options: PipelineOptions) -> bool:
    """Returns whether the workers are this process or its children, on any engine: they share its memory or disk."""
    environment = options.view_as(PortableOptions).environment_type or "LOOPBACK"
    return is_local(options) or (
        environment == "LOOPBACK" and not is_detached(options) and flink_cluster(options) is None
    )


def is_detached(options: PipelineOptions) -> bool:
    """Returns whether the job continues without the process that started it."""
    return engine(options) == "DataflowRunner"


def master(options: PipelineOptions) -> str | None:
    """Where the engine's jobs are found, see `jobs_at`; `None` if the job ends with this process."""
    if is_detached(options):
        cloud = options.view_as(GoogleCloudOptions)
        endpoint = cloud.dataflow_endpoint
        return address(cloud.project, cloud.region, None if endpoint == _DATAFLOW else endpoint)
    cluster = flink_cluster(options)
    return None if cluster is None else cluster.url


def flink_cluster(options: PipelineOptions) -> FlinkCluster | None:
    """Returns the Flink cluster of a pipeline; `None` for other engines and for the one embedded in the job server."""
    master = options.view_as(FlinkRunnerOptions).flink_master
    if engine(options) != "FlinkRunner" or master in _EMBEDDED:
        return None
    return FlinkCluster(master)


def processes(options: PipelineOptions) -> int:
    """Returns the number of worker processes that share a run's limits.

    These are the processes of the local engine, one for each TaskManager of Flink, or one for each processor of
    Dataflow's workers (for each worker with `--experiments=no_use_multiple_sdk_containers`). 1 if the engine decides.
    """
    if has_worker_processes(options):
        return max(1, options.view_as(DirectOptions).direct_num_workers)
    if is_detached(options):
        return _dataflow_processes(options)
    cluster = flink_cluster(options)
    if cluster is None:
        return 1
    return max(1, cluster.taskmanagers()) * max(1, int(options.view_as(PortableOptions).sdk_worker_parallelism))


def _dataflow_processes(options: PipelineOptions) -> int:
    workers = options.view_as(WorkerOptions)
    count = max(1, workers.max_num_workers or workers.num_workers or 1)
    if options.view_as(DebugOptions).lookup_experiment("no_use_multiple_sdk_containers"):
        return count
    processors = (workers.machine_type or "").rpartition("-")[2]
    return count * (int(processors) if processors.isdecimal() else 2)


def runner(options: PipelineOptions) -> Any:
    """Returns the runner of the options.

    "DirectRunner" is pinned to Beam's in-process engine by class: Beam would look for the binary of another engine
    first, and use it silently if it finds one.

    Raises:
        ConfigError: This process starts the engine, which only its main thread can do.
    """
    if has_worker_processes(options):
        from .local_engine import LocalEngine

        return LocalEngine()
    if is_local(options):
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        return FnApiRunner()
    starts = engine(options) == "FlinkRunner" and not options.view_as(FlinkRunnerOptions).flink_submit_uber_jar
    if (starts or engine(options) == "PrismRunner") and threading.current_thread() is not threading.main_thread():
        raise ConfigError(f"{engine(options)} is started from the main thread only", where="--runner")
    return options.view_as(StandardOptions).runner
