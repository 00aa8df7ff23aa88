"""Where a pipeline runs: Beam's options, and our defaults for each engine in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

from ..schemas.errors import ConfigError

ENGINES = ("DirectRunner", "PrismRunner", "FlinkRunner", "DataflowRunner")


def pipeline_options(flags: Sequence[str]) -> PipelineOptions:
    """Beam's options from command-line flags such as `--runner=FlinkRunner`.

    Raises:
        ConfigError: A flag is no option of Beam, or the engine is none we run on.
    """
    options = PipelineOptions(list(flags))
    unknown = options.view_as(_NoOptions).unknown(flags)
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]!r}", allowed="options of evalbeam run, and Beam's own")
    name = options.view_as(StandardOptions).runner or "DirectRunner"
    if name not in ENGINES:
        raise ConfigError(f"found {name!r}", where="--runner", allowed=", ".join(ENGINES))
    return options


class _NoOptions(PipelineOptions):
    """Knows no option itself: what is left over for it is unknown to all of Beam."""

    def unknown(self, flags: Sequence[str]) -> list[str]:
        known = self.get_all_options(drop_default=False)
        found = []
        for flag in flags:
            if flag.startswith("--"):
                name = flag[2:].partition("=")[0]
                if name not in known and name.removeprefix("no_") not in known:
                    found.append(flag)
        return found


def is_local(options: PipelineOptions) -> bool:
    """Whether the pipeline runs in this process (and its local workers)."""
    return (options.view_as(StandardOptions).runner or "DirectRunner") == "DirectRunner"


def has_worker_processes(options: PipelineOptions) -> bool:
    """Whether a local pipeline runs in worker processes of its own."""
    return is_local(options) and options.view_as(DirectOptions).direct_running_mode == "multi_processing"


def in_this_process(options: PipelineOptions) -> bool:
    """Whether no other process takes part, so that objects need not travel."""
    return is_local(options) and not has_worker_processes(options)


def processes(options: PipelineOptions) -> int:
    """Worker processes that share a run's limits: those of the local engine; 1 where the engine decides by itself."""
    if has_worker_processes(options):
        return max(1, options.view_as(DirectOptions).direct_num_workers)
    return 1


def runner(options: PipelineOptions) -> Any:
    """The runner of the options.

    "DirectRunner" is pinned to Beam's in-process engine by class: its own choice would look for another engine's
    binary first, and use it silently where it finds one.
    """
    if is_local(options):
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        return FnApiRunner()
    return options.view_as(StandardOptions).runner
