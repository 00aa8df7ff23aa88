"""Checks that an engine has all that a run needs, before anything starts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    GoogleCloudOptions,
    PipelineOptions,
    PortableOptions,
    PrismRunnerOptions,
    WorkerOptions,
)

from ...transforms.io import secrets
from ..runners import options as engines
from ..runners.flink import FlinkCluster
from ..runners.jobs import Unreachable
from .plan import Plan

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_NO_RESTART = ("", "none", "off", "disable")
_BUFFERS = "taskmanager.network.sort-shuffle.min-buffers"


@dataclass
class EngineReport:
    """Result of the check.

    Attributes:
        engine: Name of the engine, and where it is.
        problems: Why a run cannot start.
        warnings: What a run may suffer from.
    """

    engine: str
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def render(self) -> str:
        """The report as text, to stand below that of the plan."""
        lines = [self.engine, *(f"warning: {w}" for w in self.warnings)]
        return "\n".join(f"{'engine' if i == 0 else '':<8} {line}" for i, line in enumerate(lines))


def look_at(options: PipelineOptions, plan: Plan | None = None) -> EngineReport:
    """Checks the engine that the options name, for a plan if one is given."""
    report = EngineReport(engines.engine(options))
    if report.engine == "PrismRunner":
        report.problems += _prism(options)
    elif report.engine == "FlinkRunner":
        _flink(options, report)
    elif report.engine == "DataflowRunner":
        _dataflow(options, report, plan)
    if plan is not None:
        _agent(options, plan, report)
    return report


def _prism(options: PipelineOptions) -> Iterator[str]:
    prism = options.view_as(PrismRunnerOptions).prism_location
    install = "the path of the binary that `go install github.com/apache/beam/sdks/v2/go/cmd/prism@VERSION` makes"
    if not prism:
        yield f"--prism_location: no prism on the PATH (allowed: {install})"
    elif "://" not in prism and not Path(prism).is_file():
        yield f"--prism_location: no such file: {prism} (allowed: {install})"


def _flink(options: PipelineOptions, report: EngineReport) -> None:
    flink, portable = options.view_as(FlinkRunnerOptions), options.view_as(PortableOptions)
    cluster = engines.flink_cluster(options)
    if portable.job_endpoint is None and not (cluster and flink.flink_submit_uber_jar) and not shutil.which("java"):
        report.problems.append("FlinkRunner: no java on the PATH, which runs the job server (allowed: Java 11 or 17)")
    jar = flink.flink_job_server_jar
    if jar is None and portable.job_endpoint is None:
        report.warnings.append("no --flink_job_server_jar: Beam will try to download it (`make flink-jar` makes one)")
    elif jar is not None and "://" not in jar and not Path(jar).is_file():
        report.problems.append(f"--flink_job_server_jar: no such file: {jar} (`make flink-jar` makes one)")
    if cluster is None:
        report.engine += ", embedded in a job server of this machine"
        return
    try:
        _cluster(cluster, report)
    except Unreachable as error:
        report.problems.append(f"--flink_master: {error}")


def _cluster(cluster: FlinkCluster, report: EngineReport) -> None:
    slots, settings = cluster.slots(), cluster.settings()
    report.engine += f" {cluster.version()} at {cluster.url}, {slots} slots on {cluster.taskmanagers()} TaskManagers"
    if not slots:
        report.problems.append(f"--flink_master: the cluster at {cluster.url} has no TaskManager")
    restart = settings.get("restart-strategy.type") or settings.get("restart-strategy") or ""
    if restart.lower() in _NO_RESTART:
        text = "the cluster has no restart strategy: one killed worker process or TaskManager ends the run"
        report.warnings.append(f"{text} (set restart-strategy.type: fixed-delay in Flink's configuration)")
    if int(settings.get(_BUFFERS, 512)) > 64:
        report.warnings.append(f"{_BUFFERS} is above 64: Beam's shuffles may find too few network buffers")


def _dataflow(options: PipelineOptions, report: EngineReport, plan: Plan | None) -> None:
    cloud, workers = options.view_as(GoogleCloudOptions), options.view_as(WorkerOptions)
    for name in ("project", "region"):
        if not getattr(cloud, name):
            report.problems.append(f"--{name}: missing (allowed: the one the job runs in)")
    if not (cloud.temp_location or cloud.staging_location):
        report.problems.append("--temp_location: missing (allowed: a folder on gs:// that the job may write to)")
    report.engine += f" in {cloud.project}, {cloud.region}, image {workers.sdk_container_image or 'of Beam'}"
    if not workers.sdk_container_image:
        text = "--sdk_container_image: without an image that holds evalbeam, every worker must install it as it starts"
        report.warnings.append(text)
    if plan is None:
        return
    if not plan.config.output.path.startswith("gs://"):
        found = f"output.path: found {plan.config.output.path!r}, which the workers cannot reach"
        report.problems.append(f"{found} (allowed: a folder on gs://)")
    policies = (plan.config.agent, *(use.policy for use in plan.judges.values()))
    if any(p.divided for p in policies) and not (workers.max_num_workers or workers.num_workers):
        text = "--max_num_workers: missing, though limits of the whole run are divided over its workers"
        report.problems.append(f"{text} (allowed: the most workers the job may have)")


def _agent(options: PipelineOptions, plan: Plan, report: EngineReport) -> None:
    config = plan.config.agent
    if engines.calls_from_here(options):
        asked = {f"judges.{name}": plan.config.judges[name].params for name in plan.judges}
        called = {} if plan.recorded or plan.config.replay else {"agent": config.params}
        found = [secrets.look_up(config.secrets, "agent.secrets")]
        found += [secrets.look_up(keys, where, config.secrets) for where, keys in {**called, **asked}.items()]
        report.problems += map(str, chain.from_iterable(found))
        return
    if config.target is not None and not isinstance(config.target, str):
        text = "an object given from Python cannot reach the workers"
        report.problems.append(f'agent.target: {text} (allowed: "module:name")')
    elif isinstance(config.target, str) and not plan.packages:
        module = sys.modules.get(config.target.partition(":")[0])
        file = getattr(module, "__file__", None)
        if file and "site-packages" not in Path(file).parts and not config.target.startswith("evalbeam."):
            name = os.path.basename(file)
            report.warnings.append(f"{name} lies here: workers find it by agent.packages, or where it is installed")
    cluster = engines.flink_cluster(options)
    path = plan.config.output.path
    if cluster is not None and "://" not in path and not any(h in cluster.url for h in _LOOPBACK):
        report.warnings.append(f"output.path: every TaskManager must see the folder {path}")
