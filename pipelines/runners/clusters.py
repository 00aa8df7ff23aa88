"""Finds the engine of a run's job."""

from __future__ import annotations

from .dataflow import SCHEME, Dataflow
from .flink import FlinkCluster
from .jobs import Jobs


def jobs_at(master: str, timeout: float = 20.0) -> Jobs:
    """Returns the engine at an address: Flink's REST interface, or `dataflow://PROJECT/REGION`."""
    return Dataflow(master, timeout) if master.startswith(SCHEME) else FlinkCluster(master, timeout)
