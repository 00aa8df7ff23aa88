"""The Airflow DAG as it stands, run day by day by Airflow itself: Dataflow and Cloud Storage answer on loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage
from json_server import JsonHandler, serving

pytestmark = pytest.mark.deploy

SETTINGS = {
    "project": "test-project",
    "region": "europe-west1",
    "template": "gs://evalbeam/templates/evalbeam.json",
    "image": "europe-docker.pkg.dev/test-project/r/evalbeam:1",
    "config": "gs://evalbeam/eval.yaml",
    "output": "gs://evalbeam/days",
    "service_account": "evalbeam@test-project.iam.gserviceaccount.com",
}
PASSED = {"state": "finished", "verdict": "PASSED", "criteria": []}


class _Dataflow(JsonHandler):
    """Launches templates: the server's `plan` says for each day how its job ends, and what it leaves behind."""

    def do_POST(self) -> None:
        body = self.body()
        assert self.path.startswith("/v1b3/projects/test-project/locations/europe-west1/flexTemplates:launch")
        day = body["launchParameter"]["parameters"]["run_date"]
        self.server.launched.append(body["launchParameter"])  # type: ignore[attr-defined]
        self.answer({"job": self._job(day)})

    def do_GET(self) -> None:
        found = re.match(r"/v1b3/projects/test-project/locations/europe-west1/jobs/job-([0-9-]+)", self.path)
        assert found
        if found[1] not in self.server.seen:  # type: ignore[attr-defined]
            self.server.seen.add(found[1])  # type: ignore[attr-defined]
            return self.answer(self._job(found[1], "JOB_STATE_RUNNING"))
        end, manifest = self.server.plan[found[1]]  # type: ignore[attr-defined]
        if manifest is not None:
            client = storage.Client()
            client.bucket("evalbeam").blob(f"days/run_date={found[1]}/manifest.json").upload_from_string(
                json.dumps(manifest)
            )
            client.close()
        return self.answer(self._job(found[1], end))

    def _job(self, day: str, state: str = "JOB_STATE_QUEUED") -> dict[str, Any]:
        return {"id": f"job-{day}", "name": f"agent-eval-{day}", "currentState": state, "projectId": "test-project"}


@pytest.fixture(scope="module")
def airflow(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Airflow's Python, and an environment with a database of its own that knows the DAG."""
    python = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "airflow/venv/bin/python"
    if not python.exists():
        pytest.skip("Airflow is not installed (make test-deploy installs it)")
    home = tmp_path_factory.mktemp("airflow")
    environment = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(root / "deploy" / "schedule" / "airflow"),
        "AIRFLOW_VAR_EVALBEAM": json.dumps(SETTINGS),
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": "google-cloud-platform://",
    }
    env = {**os.environ, **environment}
    for words in (("db", "migrate"), ("dags", "reserialize")):
        subprocess.run([python, "-m", "airflow", *words], env=env, check=True, capture_output=True, timeout=300)
    return python, environment


@pytest.fixture
def run_days(airflow: tuple[Path, dict[str, str]], cloud: Any, root: Path) -> Iterator[Any]:
    python, environment = airflow
    with serving(_Dataflow, plan={}, launched=[], seen=set()) as server:

        def run(**plan: tuple[str, Any]) -> list[dict[str, Any]]:
            server.plan = {day.strip("_").replace("_", "-"): end for day, end in plan.items()}  # type: ignore[attr-defined]
            dag = root / "deploy" / "schedule" / "airflow" / "agent_eval.py"
            script = root / "tests" / "deploy" / "airflow" / "days.py"
            url = f"http://127.0.0.1:{server.server_port}"
            command = [python, script, url, dag, *server.plan]  # type: ignore[attr-defined]
            env = {**os.environ, **cloud.environment, **environment}
            ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
            assert ran.returncode == 0, ran.stderr[-3000:]
            return [json.loads(line[4:]) for line in ran.stdout.splitlines() if line.startswith("DAY ")]

        run.launched = server.launched  # type: ignore[attr-defined]
        yield run


def test_days_end_as_their_verdicts_say(run_days: Any) -> None:
    failed = {"state": "finished", "verdict": "FAILED", "criteria": [{"metric": "exact_match"}]}
    stopped = {"state": "stopped", "verdict": None, "reason": "cancelled"}
    good, bad, dead, half = run_days(
        _2026_01_05=("JOB_STATE_DONE", PASSED),
        _2026_01_06=("JOB_STATE_DONE", failed),
        _2026_01_07=("JOB_STATE_FAILED", None),  # the job, or its launcher, died without a manifest
        _2026_01_08=("JOB_STATE_DONE", stopped),
    )
    assert good == {"day": "2026-01-05", "run": "success", "tasks": dict.fromkeys(good["tasks"], "success")}
    assert set(good["tasks"]) == {"unfinished", "start", "wait", "gate"}
    assert (bad["run"], bad["tasks"]["wait"], bad["tasks"]["gate"]) == ("failed", "success", "failed")
    assert (dead["run"], dead["tasks"]["wait"], dead["tasks"]["gate"]) == ("failed", "failed", "upstream_failed")
    assert (half["run"], half["tasks"]["wait"], half["tasks"]["gate"]) == ("failed", "success", "failed")
    same = {"config": SETTINGS["config"], "sdk_container_image": SETTINGS["image"]}
    assert [p["parameters"] for p in run_days.launched] == [
        {**same, "run_date": d, "output": f"gs://evalbeam/days/run_date={d}"}
        for d in ("2026-01-05", "2026-01-06", "2026-01-07", "2026-01-08")
    ]
    assert all(p["containerSpecGcsPath"] == SETTINGS["template"] for p in run_days.launched)


def test_a_day_that_is_finished_is_not_started_again(run_days: Any) -> None:
    (first,) = run_days(_2026_02_01=("JOB_STATE_DONE", PASSED))
    (again,) = run_days(_2026_02_01=("JOB_STATE_FAILED", None))
    assert first["run"] == again["run"] == "success"
    assert (again["tasks"]["start"], again["tasks"]["gate"]) == ("skipped", "success")
    assert len(run_days.launched) == 1
