"""Runs days of the DAG with Airflow's own code, against servers on loopback; started by test_schedule.py.

    python days.py DATAFLOW_URL DAG_FILE DAY ...

Prints one JSON object for each day: the state of each task, and what was launched.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime

from airflow.dag_processing.dagbag import DagBag
from airflow.providers.google.cloud.hooks.dataflow import DataflowHook
from airflow.utils.state import TaskInstanceState


def main(url: str, file: str, days: list[str]) -> None:
    DataflowHook.get_client_options = lambda self: {"api_endpoint": url}
    bag = DagBag(dag_folder=file)
    assert not bag.import_errors, bag.import_errors
    (dag,) = bag.dags.values()
    for task in dag.tasks:
        task.retries = 0  # each waits for minutes
    for day in days:
        moment = datetime.fromisoformat(day).replace(tzinfo=UTC)
        run = dag.test(logical_date=moment, use_executor=False)
        states = {t.task_id: str(t.state or TaskInstanceState.REMOVED) for t in run.get_task_instances()}
        print("DAY", json.dumps({"day": day, "run": str(run.state), "tasks": states}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
