"""The switch: our defaults for each engine, and what is found missing before anything starts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions, PortableOptions

from evalbeam import ConfigError
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.run.build import make_plan
from evalbeam.pipelines.run.preflight import look_at
from evalbeam.pipelines.runners import options as engines
from evalbeam.pipelines.runners.workers import local_workers
from evalbeam.schemas.config.evaluation import EvaluationConfig

FLINK = ["--runner=FlinkRunner", "--flink_master=127.0.0.1:9"]


def options(*flags: str) -> PipelineOptions:
    return engines.pipeline_options(flags)


def test_the_local_engine_is_beams_own_by_class() -> None:
    assert type(engines.runner(options())).__name__ == "FnApiRunner"
    assert engines.in_this_process(options())
    assert local_workers(1) == []
    two = options(*local_workers(2))
    assert (engines.processes(two), engines.in_this_process(two), engines.calls_from_here(two)) == (2, False, True)


def test_a_cluster_gets_a_jar_worker_processes_and_blocking_exchanges() -> None:
    found = options(*FLINK)
    flink, portable = found.view_as(FlinkRunnerOptions), found.view_as(PortableOptions)
    assert flink.flink_submit_uber_jar
    assert flink.flink_version == "1.20"
    assert portable.environment_type == "PROCESS"
    assert json.loads(portable.environment_config) == {"command": "evalbeam-worker"}
    assert found.get_all_options()["execution_mode_for_batch"] == "BATCH_FORCED"
    assert not engines.calls_from_here(found)


def test_what_is_given_wins_over_our_defaults() -> None:
    given = ["--flink_submission=job_server", "--environment_type=EXTERNAL", "--environment_config=localhost:5000"]
    found = options(*FLINK, *given, "--execution_mode_for_batch=PIPELINED", "--flink_version=1.19")
    flink, portable = found.view_as(FlinkRunnerOptions), found.view_as(PortableOptions)
    assert (flink.flink_submit_uber_jar, flink.flink_version) == (False, "1.19")
    assert (portable.environment_type, portable.environment_config) == ("EXTERNAL", "localhost:5000")
    assert found.get_all_options()["execution_mode_for_batch"] == "PIPELINED"


def test_without_an_address_flink_is_embedded_and_its_workers_are_here() -> None:
    found = options("--runner=FlinkRunner")
    assert found.view_as(FlinkRunnerOptions).flink_master == "[local]"
    assert engines.flink_cluster(found) is None
    assert engines.calls_from_here(found)
    assert engines.processes(found) == 1


def test_the_limits_of_a_run_are_divided_over_the_taskmanagers(flink) -> None:
    assert engines.processes(options("--runner=FlinkRunner", f"--flink_master={flink.url}")) == 2
    more = ["--sdk_worker_parallelism=3"]
    assert engines.processes(options("--runner=FlinkRunner", f"--flink_master={flink.url}", *more)) == 6


def test_what_starts_a_server_here_is_started_from_the_main_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(engines.runner, options(*FLINK)).result() == "FlinkRunner"
        for flags in (["--runner=PrismRunner"], ["--runner=FlinkRunner"], [*FLINK, "--flink_submission=job_server"]):
            with pytest.raises(ConfigError, match="is started from the main thread only"):
                pool.submit(engines.runner, options(*flags)).result()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--time_limit=5"], "--time_limit: DirectRunner has no limit of its own"),
        ([*FLINK, *local_workers(2)], "--workers: FlinkRunner has workers of its own"),
        (["--runner=SparkRunner"], "--runner: found 'SparkRunner'"),
    ],
)
def test_options_that_do_not_go_together(flags: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        options(*flags)


def test_what_is_missing_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no prism on the PATH" in look_at(options("--runner=PrismRunner")).problems[0]
    assert "no such file: /none" in look_at(options("--runner=PrismRunner", "--prism_location=/none")).problems[0]
    java, jar = look_at(options("--runner=FlinkRunner", "--flink_job_server_jar=none.jar")).problems
    assert "no java on the PATH" in java
    assert "no such file: none.jar" in jar
    (unreachable,) = look_at(options(*FLINK)).problems
    assert unreachable.startswith("--flink_master: no Flink cluster answers at http://127.0.0.1:9")


def test_a_cluster_that_cannot_recover_is_warned_of(flink) -> None:
    found = options("--runner=FlinkRunner", f"--flink_master={flink.url}", "--flink_job_server_jar=x://y")
    report = look_at(found)
    assert report.warnings[0].partition(":")[0] == "the cluster has no restart strategy"
    assert "min-buffers is above 64" in report.warnings[1]
    flink.settings = {"restart-strategy.type": "fixed-delay", "taskmanager.network.sort-shuffle.min-buffers": "64"}
    report = look_at(found)
    assert report.warnings == []
    assert report.render() == f"engine   FlinkRunner 1.20.5 at {flink.url}, 4 slots on 2 TaskManagers"
    flink.taskmanagers = flink.slots = 0
    assert "has no TaskManager" in look_at(found).problems[0]


def plan(folder: Path, judge: dict[str, object] | None = None, **agent: object):
    (folder / "rows.jsonl").write_text('{"prompt": "x"}\n')
    section = {"dataset": {"path": str(folder / "rows.jsonl")}, "metrics": ["exact_match"], "agent": agent}
    if judge is not None:
        section |= {"metrics": ["fluency"], "judges": {"default": {"target": print, **judge}}}
    return make_plan(EvaluationConfig.parse(section))


@pytest.mark.parametrize("limit", ["max_in_flight_total", "requests_per_minute", "tokens_per_minute"])
def test_limits_of_the_whole_run_need_a_bound_of_workers(limit: str, tmp_path: Path) -> None:
    flags = ["--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t"]
    told = "--max_num_workers: missing, though limits of the whole run are divided over its workers"
    agent, judge = plan(tmp_path, target="os.path:basename", **{limit: 60}), plan(tmp_path, {limit: 60})
    for given, expected in ((plan(tmp_path, {}), False), (agent, True), (judge, True)):
        assert any(told in p for p in look_at(options(*flags), given).problems) == expected
        assert not any(told in p for p in look_at(options(*flags, "--max_num_workers=4"), given).problems)


def test_an_agent_that_workers_cannot_find_or_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lies_here.py").write_text("def ask(prompt):\n    return prompt\n")
    (told,) = (w for w in look_at(options(*FLINK), plan(tmp_path, target="lies_here:ask")).warnings if "packages" in w)
    assert told.startswith("lies_here.py lies here: workers find it by agent.packages")
    found = look_at(options(*FLINK), plan(tmp_path, target=str.upper)).problems
    assert 'an object given from Python cannot reach the workers (allowed: "module:name")' in found[-1]


def test_a_secret_is_a_reference_that_is_looked_up_where_the_agent_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keyed.py").write_text("import os\n\n\ndef ask(prompt):\n    return os.environ['AGENT_KEY'][::-1]\n")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "x", "reference": "7-lapo"}\n')
    arguments = ["--dataset", "rows.jsonl", "--agent", "keyed:ask", "--metrics", "exact_match", "--output", "out"]
    given = ["--set", "agent.secrets={AGENT_KEY: '${env:TEAM_KEY}'}"]
    assert main(["run", *arguments, *given]) == 2
    assert "agent.secrets.AGENT_KEY: the environment has no variable 'TEAM_KEY'" in capsys.readouterr().err
    monkeypatch.setenv("TEAM_KEY", "opal-7")
    monkeypatch.setenv("AGENT_KEY", "")
    assert main(["run", *arguments, *given, "--set", "criteria={exact_match: 1}"]) == 0
    for file in (f for f in (tmp_path / "out").rglob("*") if f.is_file()):
        assert b"opal-7" not in file.read_bytes(), file
    capsys.readouterr()
    assert main(["run", *arguments, "--set", "agent.secrets={AGENT_KEY: sk-12345}"]) == 2
    err = capsys.readouterr().err
    assert "agent.secrets: found something else (allowed: names of environment variables" in err
    assert "sk-12345" not in err


def test_references_that_lead_nowhere_are_told_before_the_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"prompt": "x", "response": "y"}\n')
    judge = (
        "judges={default: {type: openai, model: m, api_key: '${env:KEY_OF_NOBODY}', base_url: 'http://127.0.0.1:9'}}"
    )
    agent = "agent={target: 'http://127.0.0.1:9', headers: {Authorization: 'Bearer ${file:no/token}'}}"
    missing = "judges.default.api_key: the environment has no variable 'KEY_OF_NOBODY'"
    unread = "agent.headers.Authorization: the file 'no/token' cannot be read: FileNotFoundError"
    run = ["--dataset", "rows.jsonl", "--metrics", "fluency", "--output", "out", "--set", judge]
    for arguments, told in ((run, [missing]), ([*run, "--set", agent], [unread, missing])):
        assert main(["check", *arguments]) == 2
        assert re.findall("error: (.*)", capsys.readouterr().err) == told
        assert main(["run", *arguments]) == 2
        assert told[0] in capsys.readouterr().err
    provided = ["--set", "agent.secrets={KEY_OF_NOBODY: '${env:HOME}'}"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["check", *run, *provided]) == 0
