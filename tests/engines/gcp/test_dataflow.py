"""Submitting to Dataflow: staged over the protocol of Cloud Storage, received by an endpoint on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from google.cloud import storage
from json_server import JsonHandler, serving

from evalbeam.pipelines.run.wait import wait
from evalbeam.pipelines.runners import lease
from evalbeam.pipelines.runners.dataflow import Dataflow, address
from evalbeam.pipelines.runners.jobs import Unreachable
from evalbeam.schemas.errors import ConfigError, RunError

pytestmark = pytest.mark.engines

PROJECT, REGION = "test-project", "europe-west1"


class _Service(JsonHandler):
    """Keeps what was submitted; the tests say how the jobs fare."""

    def do_POST(self) -> None:
        body = self.body()
        assert self.path.startswith(f"/v1b3/projects/{PROJECT}/locations/{REGION}/jobs")
        number = len(self.server.jobs)  # type: ignore[attr-defined]
        job = {"id": f"job-{number}", "name": body["name"], "createTime": f"2026-11-21T00:00:{number:02d}Z"}
        self.server.jobs.append(job | {"currentState": "JOB_STATE_PENDING", "body": body})  # type: ignore[attr-defined]
        self.answer(job)

    def do_PUT(self) -> None:
        body = self.body()
        job = self.server.jobs[int(re.findall(r"job-(\d+)", self.path)[0])]  # type: ignore[attr-defined]
        assert body["requestedState"] in ("JOB_STATE_CANCELLED", 5)
        job["currentState"] = "JOB_STATE_CANCELLED"
        self.answer({k: v for k, v in job.items() if k != "body"})

    def do_GET(self) -> None:
        jobs = self.server.jobs  # type: ignore[attr-defined]
        if "/messages" in self.path:
            text = "Workflow failed.\nRuntimeError: no such bucket"
            return self.answer({"jobMessages": [{"id": "1", "messageText": text, "messageImportance": 5}]})
        return self.answer({"jobs": [{k: v for k, v in job.items() if k != "body"} for job in jobs]})


@pytest.fixture
def service() -> Iterator[ThreadingHTTPServer]:
    with serving(_Service, jobs=[]) as server:
        yield server


@pytest.fixture
def given(cloud: Any, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """(configuration on gs://, output folder) of a run of its own."""
    name = re.sub(r"\W+", "-", request.node.name)
    config = {
        "dataset": {"path": cloud.url(name, "rows.jsonl")},
        "agent": {"target": "evalbeam.pipelines.demo.agent:answer", "max_in_flight_total": 64},
        "metrics": ["exact_match"],
        "output": {"path": cloud.url(name, "run")},
    }
    client = storage.Client()
    for path, text in (("rows.jsonl", '{"prompt": "a", "reference": "b"}\n'), ("eval.json", json.dumps(config))):
        client.bucket("evalbeam").blob(f"{name}/{path}").upload_from_string(text)
    client.close()
    return cloud.url(name, "eval.json"), cloud.url(name, "run")


def options(service: ThreadingHTTPServer, cloud: Any) -> list[str]:
    return [
        "--runner=DataflowRunner",
        f"--project={PROJECT}",
        f"--region={REGION}",
        f"--temp_location={cloud.url('temp')}",
        "--sdk_container_image=europe-docker.pkg.dev/test-project/r/evalbeam:1",
        "--machine_type=n2-standard-4",
        "--max_num_workers=4",
        f"--dataflow_endpoint=http://localhost:{service.server_port}",
    ]


def submitted(service: ThreadingHTTPServer, cloud: Any) -> tuple[dict[str, Any], beam_runner_api_pb2.Pipeline]:
    """(the job as the service got it, the pipeline that was staged for it)."""
    body = service.jobs[-1]["body"]  # type: ignore[attr-defined]
    staged = body["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"].removeprefix("gs://evalbeam/")
    pipeline = beam_runner_api_pb2.Pipeline()
    pipeline.ParseFromString(cloud.file(*staged.split("/")).read_bytes())
    return body, pipeline


def test_a_submitted_run_is_left_to_its_job(
    service: ThreadingHTTPServer, cloud: Any, given: tuple[str, str], tmp_path: Path
) -> None:
    config, output = given
    ran = cloud.evalbeam("run", config, "--no-wait", *options(service, cloud), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert f"evalbeam wait {output}" in ran.stderr
    body, pipeline = submitted(service, cloud)
    images = {p["workerHarnessContainerImage"] for p in body["environment"]["workerPools"]}
    assert images == {"europe-docker.pkg.dev/test-project/r/evalbeam:1"}
    names = [t.unique_name for t in pipeline.components.transforms.values()]
    assert any(name.endswith("Invoke/Call/Call") for name in names)
    held = lease.latest(output)
    assert held is not None
    assert (held.released, held.holder.job, held.holder.state()) == (False, body["name"], "running")
    again = cloud.evalbeam("run", config, "--no-wait", *options(service, cloud), cwd=tmp_path)
    assert again.returncode == 2
    assert "is being written by another run" in again.stderr
    assert len(service.jobs) == 1  # type: ignore[attr-defined]
    service.jobs[0]["currentState"] = "JOB_STATE_FAILED"  # type: ignore[attr-defined]
    with pytest.raises(RunError, match=r"without a manifest \(job job-0 on Dataflow .*FAILED: RuntimeError: no such"):
        wait(output)
    third = cloud.evalbeam("run", config, "--no-wait", *options(service, cloud), cwd=tmp_path)
    assert third.returncode == 0, third.stderr
    stopped = cloud.evalbeam("cancel", output, "--now", cwd=tmp_path)
    assert stopped.returncode == 0, stopped.stderr
    assert [j["currentState"] for j in service.jobs] == ["JOB_STATE_FAILED", "JOB_STATE_CANCELLED"]  # type: ignore[attr-defined]


def test_limits_of_the_whole_run_are_divided_over_the_processors(cloud: Any, service: ThreadingHTTPServer) -> None:
    from evalbeam.pipelines.runners import options as engines

    given_ = options(service, cloud)
    assert engines.processes(engines.pipeline_options(given_)) == 16
    single = [*given_, "--experiments=no_use_multiple_sdk_containers"]
    assert engines.processes(engines.pipeline_options(single)) == 4
    assert not engines.calls_from_here(engines.pipeline_options(given_))


def test_the_template_launcher_submits_and_writes_a_template(
    service: ThreadingHTTPServer, cloud: Any, given: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalbeam.pipelines.cli.flex_template import main

    config, output = given
    words = [f"--config={config}", "--run_date=2026-11-21", *options(service, cloud), "--job_name=agent-eval-1"]
    assert main([*words, f"--output={output}-a", '--settings={"dataset.limit": 1}']) == 0
    assert service.jobs[-1]["body"]["name"] == "agent-eval-1"  # type: ignore[attr-defined]
    template = cloud.url("templates", "job.json")
    assert main([*words, f"--output={output}-b", f"--template_location={template}"]) == 0
    written = json.loads(cloud.file("templates", "job.json").read_text())
    assert written["name"] == "agent-eval-1"
    assert len(service.jobs) == 1  # type: ignore[attr-defined]
    assert main([*words, f"--output={output}-a", "--overwrite=maybe"]) == 2


def test_what_is_lacking_is_said_before_anything_is_staged(
    service: ThreadingHTTPServer, cloud: Any, given: tuple[str, str], tmp_path: Path
) -> None:
    config, _ = given
    words = [o for o in options(service, cloud) if not o.startswith(("--region", "--temp", "--max_num"))]
    ran = cloud.evalbeam("check", config, *words, "--set", "output.path=here", cwd=tmp_path)
    assert ran.returncode == 2
    for name in (
        "--region: missing",
        "--temp_location: missing",
        "--max_num_workers: missing",
        "output.path: found 'here'",
    ):
        assert name in ran.stderr
    ran = cloud.evalbeam("run", config, "--no-wait", cwd=tmp_path)
    assert ran.returncode == 2
    assert "--no-wait: a run on DirectRunner ends with this process" in ran.stderr
    assert not service.jobs  # type: ignore[attr-defined]


def test_a_service_that_does_not_answer() -> None:
    there = Dataflow(address(PROJECT, REGION, "http://localhost:9"), timeout=1)
    with pytest.raises(Unreachable, match="Dataflow in test-project, europe-west1 does not answer"):
        there.job("agent-eval")


def test_waiting_where_nothing_runs(cloud: Any) -> None:
    with pytest.raises(ConfigError, match="no run at"):
        wait(cloud.url("nothing"))
