"""A daily evaluation on Dataflow: starts the flex template, waits for the run, and fails the day if its verdict does.

The run is identified by its output folder, one for each day. A task that is repeated, a day that is cleared or
backfilled starts the same run again: what was paid for is not paid for again, and a finished day costs nothing (the
template is not even started). The name of the Dataflow job identifies nothing: Airflow adds random letters to it.

Copy this file into the DAG folder and set the Airflow variable `evalbeam` to a JSON object:

    {"project": "my-project", "region": "europe-west1", "template": "gs://my-bucket/templates/evalbeam.json",
     "image": "europe-docker.pkg.dev/my-project/evals/evalbeam:1",
     "config": "gs://my-bucket/eval.yaml", "output": "gs://my-bucket/evals",
     "service_account": "evalbeam@my-project.iam.gserviceaccount.com"}
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from airflow.exceptions import AirflowFailException
from airflow.providers.google.cloud.hooks.dataflow import DataflowHook
from airflow.providers.google.cloud.hooks.gcs import GCSHook
from airflow.providers.google.cloud.operators.dataflow import DataflowStartFlexTemplateOperator
from airflow.sdk import DAG, task
from airflow.sdk.bases.sensor import PokeReturnValue

SETTINGS = "var.json.evalbeam"
OUTPUT = f"{{{{ {SETTINGS}.output }}}}/run_date={{{{ ds }}}}"
ENDED = ("JOB_STATE_DONE", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_UPDATED", "JOB_STATE_DRAINED")

BODY = {
    "launchParameter": {
        "jobName": "agent-eval-{{ ds_nodash }}",
        "containerSpecGcsPath": f"{{{{ {SETTINGS}.template }}}}",
        "parameters": {
            "config": f"{{{{ {SETTINGS}.config }}}}",
            "sdk_container_image": f"{{{{ {SETTINGS}.image }}}}",
            "run_date": "{{ ds }}",
            "output": OUTPUT,
        },
        "environment": {
            "serviceAccountEmail": f"{{{{ {SETTINGS}.service_account }}}}",
            "maxWorkers": 4,
            "additionalUserLabels": {"app": "evalbeam", "run_date": "{{ ds }}"},
        },
    }
}
"""What the template is started with. The output folder in the parameters is what identifies the run."""


def manifest_of(folder: str) -> dict[str, Any] | None:
    """The manifest of a run, `None` as long as there is none."""
    bucket, _, path = folder.removeprefix("gs://").partition("/")
    name = f"{path.rstrip('/')}/manifest.json"
    hook = GCSHook()
    return json.loads(hook.download(bucket, name)) if hook.exists(bucket, name) else None


def state_of(job: dict[str, Any], project: str, region: str) -> str:
    """State of a Dataflow job."""
    return DataflowHook().get_job(job_id=job["id"], project_id=project, location=region)["currentState"]


@task.short_circuit(ignore_downstream_trigger_rules=False)
def unfinished(output: str) -> bool:
    """Whether the day still has to be run; a finished one goes straight to its verdict."""
    found = manifest_of(output)
    return found is None or found.get("state") != "finished"


@task.sensor(poke_interval=60, timeout=24 * 3600, mode="reschedule")
def wait(output: str, job: dict[str, Any], project: str, region: str) -> PokeReturnValue:
    """Waits for the manifest, or for a job that ended without one; an earlier try's manifest does not count."""
    state = state_of(job, project, region)  # first: a job that ends has written its manifest before
    found = manifest_of(output)
    if state in ENDED and found is None:
        raise AirflowFailException(f"{job['id']} ended as {state} without a manifest; clear the day to go on with it")
    return PokeReturnValue(is_done=state in ENDED or (found or {}).get("state") == "finished")


@task(trigger_rule="none_failed")
def gate(output: str) -> dict[str, Any]:
    """Fails unless the run finished and every criterion passed."""
    found = manifest_of(output)
    if found is None or found.get("state") != "finished":
        raise AirflowFailException(f"the run in {output} did not finish: {(found or {}).get('reason')}")
    if found.get("verdict") not in (None, "PASSED"):
        raise AirflowFailException(f"verdict {found['verdict']}: {json.dumps(found.get('criteria'))}")
    return {"verdict": found.get("verdict"), "output": output}


with DAG(
    "agent_eval",
    schedule="0 3 * * *",
    start_date=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": datetime.timedelta(minutes=10)},
    tags=["evalbeam"],
) as dag:
    project, region = f"{{{{ {SETTINGS}.project }}}}", f"{{{{ {SETTINGS}.region }}}}"
    start = DataflowStartFlexTemplateOperator(
        task_id="start", project_id=project, location=region, body=BODY, wait_until_finished=False
    )
    waited = wait(OUTPUT, start.output, project, region)
    unfinished(OUTPUT) >> start >> waited >> gate(OUTPUT)
