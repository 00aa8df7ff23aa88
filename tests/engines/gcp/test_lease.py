"""The lease of a run on gs://: a file is created once, however many try at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from evalbeam import ConfigError
from evalbeam.pipelines.runners import lease
from evalbeam.transforms.io import storage

pytestmark = pytest.mark.engines


def test_a_file_is_created_by_one_of_many(cloud: Any) -> None:
    path, together = cloud.url("lease/once"), threading.Barrier(12)

    def create(i: int) -> bool:
        together.wait()
        return storage.create_new(path, b"%d" % i)

    with ThreadPoolExecutor(12) as pool:
        won = list(pool.map(create, range(12)))
    assert won.count(True) == 1
    assert storage.read_bytes(path) == b"%d" % won.index(True)


def test_a_run_on_gs_is_held_by_one(cloud: Any) -> None:
    output = cloud.url("lease/run")
    with (
        lease.held(output, lease.Holder.here("DirectRunner"), lease.latest(output)),
        pytest.raises(ConfigError, match="by another run"),
    ):
        lease.take(output, lease.Holder.here("DirectRunner"), lease.latest(output))
    with lease.held(output, lease.Holder.here("DirectRunner"), lease.latest(output)):
        found = lease.latest(output)
    assert found is not None
    assert found.number == 2
