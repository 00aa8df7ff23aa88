"""Which cluster a run's job is on."""

from __future__ import annotations

from .dataflow import SCHEME, Dataflow
from .flink import FlinkCluster
from .jobs import Jobs


def jobs_at(master: str, timeout: float = 20.0) -> Jobs:
    """The engine at an address: Flink's REST interface, or `dataflow://PROJECT/REGION`."""

    return Dataflow(master, timeout) if master.startswith(SCHEME) else FlinkCluster(master, timeout)
