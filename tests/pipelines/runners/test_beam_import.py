"""Beam imported without its connectors, each time in a process of its own, beside Beam as it imports itself."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import orjson
import pytest

OURS = "from evalbeam.pipelines.runners.beam_import import import_beam; import_beam()"
PLAIN = "import apache_beam"
CLIENTS = ("pymongo", "google.cloud.bigquery", "google.cloud.pubsub", "google.cloud.dataflow")


def told(*lines: str) -> Any:
    """What a new process prints last: a value as JSON."""
    code = "\n".join((*lines[:-1], f"import sys, orjson; sys.stdout.buffer.write(orjson.dumps({lines[-1]}))"))
    return orjson.loads(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE).stdout)


def loaded(first: str) -> Any:
    return told(first, "import sys", f"[name for name in {CLIENTS!r} if name in sys.modules]")


def test_clients_that_no_run_uses_are_not_imported() -> None:
    assert loaded(PLAIN) == list(CLIENTS)
    assert loaded(OURS) == []


def test_whoever_asks_for_a_connector_gets_all_that_beam_has() -> None:
    names = "sorted(name for name in vars(beam.io) if not name.startswith('__'))"
    ask = "import apache_beam as beam; beam.io.ReadFromBigQuery"
    assert told(OURS, ask, names) == told(PLAIN, ask, names)


@pytest.mark.parametrize(
    "found",
    [
        "beam.io.WriteToMongoDB",
        "beam.io.mongodbio.WriteToMongoDB",
        "beam.io.gcp.pubsub.ReadFromPubSub",
        "beam.io.gcp.bigquery_tools.BigQueryWrapper",
        "beam.runners.dataflow.dataflow_runner.dataflow_api.JobState",
    ],
)
def test_each_way_to_a_connector_leads_to_the_one_of_beam(found: str) -> None:
    where = f"[{found}.__module__, {found}.__name__]"
    assert told(OURS, "import apache_beam as beam", where) == told(PLAIN, "import apache_beam as beam", where)


def test_an_import_by_name_gives_the_module_itself() -> None:
    assert told(OURS, "from apache_beam.io.gcp import pubsub", "type(pubsub).__name__") == "module"


def test_a_name_that_beam_lacks_is_still_an_error() -> None:
    lines = ("import apache_beam as beam", "found = [hasattr(beam.io, 'nothing'), hasattr(beam.io.gcp, 'nothing')]")
    assert told(OURS, *lines, "found") == [False, False]


def test_beam_that_is_imported_already_is_left_alone() -> None:
    assert told(PLAIN, OURS, "hasattr(__import__('apache_beam').io, '__getattr__')") is False
