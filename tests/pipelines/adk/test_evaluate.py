"""ADK's eval sets, agents and words, end to end; and where ADK 2.13 itself goes wrong, what happens here."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from evalbeam import EvaluationConfig, assert_eval, evaluate
from evalbeam.pipelines.adk.evaluate import adk_evaluate, choose_config, find_eval_files, load_cases, write_results
from evalbeam.pipelines.adk.report import render_details
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.adk_config import Criterion, read_config

from .cases import case, eval_set, roll, statuses, turn

results = pytest.importorskip("google.adk.evaluation.eval_result")
LOOSE = read_config({"criteria": {"response_match_score": 0.1}}, "x")


def test_cases_are_judged_one_by_one(agents, tmp_path):
    path = eval_set(
        tmp_path / "dice.evalset.json",
        case("good", roll(6), roll(8, 2), topic="many"),
        case("wrong words", roll(6, reply="Nothing at all")),
        case("wrong call", roll(6, calls=[("roll", {"sides": 7})])),
        case("state", roll(6, 5), session_input={"app_name": "a", "user_id": "u", "state": {"rolls": 4}}),
    )
    found = adk_evaluate(agents.dice_agent(), [path], output=str(tmp_path / "out"))
    assert statuses(found) == {"good": "PASSED", "wrong words": "FAILED", "wrong call": "FAILED", "state": "PASSED"}
    assert (found.verdicts, found.passed) == ({"dice": "FAILED"}, False)
    assert (found.run.verdict, found.run.exit_code) == ("FAILED", 1)
    table = found.run.metrics_table.set_index("eval_id")
    assert table.loc["good", "topic"] == "many"
    scores = [t["scores"]["response_match_score"] for t in table.loc["good", "turns"]]
    assert scores == [1.0, 1.0]
    (path,) = write_results(found, str(tmp_path / "history"), "dice")
    opened = results.EvalSetResult.model_validate_json(Path(path).read_bytes())
    assert {c.eval_id: c.final_eval_status.name for c in opened.eval_case_results} == statuses(found)


def test_ten_times_the_cases_all_correct(agents, tmp_path):
    path = eval_set(tmp_path / "x.evalset.json", *(case(f"c{i}", roll(i), roll(i + 1, 2)) for i in range(200)))
    found = adk_evaluate(agents.dice_agent(), [path])
    assert list(statuses(found)) == [f"c{i}" for i in range(200)]
    assert found.passed
    assert found.verdicts == {"dice": "PASSED"}


def test_silent_raising_and_hanging_agents_end_no_run(agents, tmp_path):
    """ADK 2.13 aborts on the silent one, waits for ever for the hanging one, and loses the text of the error."""
    names = ("fine", "silent", "raise", "hang", "refused")
    path = eval_set(tmp_path / "x.evalset.json", *(case(n, turn(n, "fine")) for n in names))
    options = {"turn_timeout": 0.2, "max_attempts": 1, "failure_threshold": None}
    found = adk_evaluate(agents.odd, [path], LOOSE, agent_options=options)
    assert statuses(found) == {n: "PASSED" if n == "fine" else "FAILED" for n in names}
    assert {c.eval_id: c.error for c in found.cases if c.error} == {
        "raise": "RuntimeError: the tool shed burns",
        "hang": "TimeoutError: turn 1 had no end in time",
        "refused": "ModelError: SAFETY: no dice",
    }
    silent = next(c for c in found.cases if c.eval_id == "silent")
    assert silent.metrics[0].score == 0.0


def test_a_misspelt_metric_is_found_before_any_call(agents, folder, tmp_path, capsys):
    """ADK 2.13 passes such a case where another criterion is met."""
    path = eval_set(tmp_path / "x.evalset.json", case("c", roll(6)))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.1, "respones_match": 1}}')
    assert main(["adk-eval", folder, path]) == 2
    assert "no metric named 'respones_match'; did you mean 'response_match_score'" in capsys.readouterr().err


def test_older_sets_in_folders_of_any_name(folder, tmp_path, capsys):
    """ADK 2.13 runs all of an older set whose path has a "/", and then loses the results."""
    older = [{"name": "b", "data": [{"query": "roll 6", "reference": "It is 61.", "expected_tool_use": []}]}]
    path = tmp_path / "deep" / "er" / "old.evalset.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(older))
    (path.parent / "test_config.json").write_text('{"criteria": {"response_match_score": 0.9}}')
    assert main(["adk-eval", folder, str(path)]) == 0
    assert "old: PASSED, tests passed: 1, failed: 0" in capsys.readouterr().out
    (written,) = (Path(folder) / ".adk" / "eval_history").glob("*_old_*.evalset_result.json")
    assert results.EvalSetResult.model_validate_json(written.read_bytes()).eval_set_id == "old"


def test_a_file_is_read_once_for_its_check_and_once_for_the_run(agents, tmp_path, monkeypatch):
    """ADK 2.13 parses a set by id anew for every case."""
    from evalbeam.schemas.formats import adk
    from evalbeam.transforms.readers import evalset

    path = eval_set(tmp_path / "x.evalset.json", *(case(f"c{i}", roll(i)) for i in range(30)))
    read = []
    for module in (sys.modules[load_cases.__module__], evalset):
        monkeypatch.setattr(module, "read_each_case", lambda *g: read.append(g[1]) or adk.read_each_case(*g))
    assert adk_evaluate(agents.dice_agent(), [path]).passed
    assert read == [path, path]


def test_all_files_of_a_folder_are_evaluated_before_it_fails(agents, tmp_path):
    """ADK 2.13 stops at the first file that fails."""
    eval_set(tmp_path / "tests" / "a.test.json", case("a", roll(6, reply="no")), name="a")
    eval_set(tmp_path / "tests" / "b.test.json", case("b", roll(6)), name="b")
    eval_set(tmp_path / "tests" / "deep" / "c.test.json", case("c", roll(6, calls=[])), name="c")
    (tmp_path / "tests" / "deep" / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1}}')
    with pytest.raises(AssertionError) as caught:
        assert_eval("adk_agents", str(tmp_path / "tests"), num_runs=1, print_detailed_results=False)
    assert str(caught.value).splitlines() == [
        "a: a: response_match_score is 0, expected at least 0.8",
        "c: c: tool_trajectory_avg_score is 0, expected at least 1",
    ]


def test_assert_eval_takes_the_mean_of_all_runs(agents, tmp_path, capsys):
    (tmp_path / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 0.5}}')
    turns = [roll(6), roll(6, 2, calls=[])]
    path = eval_set(tmp_path / "a.test.json", case("half", *turns))
    (found,) = assert_eval("adk_agents:root_agent", path)
    assert [(c.trial, c.metrics[0].score) for c in found.cases] == [(0, 0.5), (1, 0.5)]
    (tmp_path / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 0.6}}')
    with pytest.raises(AssertionError, match=r"half: tool_trajectory_avg_score is 0\.5, expected at least 0\.6"):
        assert_eval("adk_agents:root_agent", path)
    assert "called:   roll" in capsys.readouterr().out
    session = tmp_path / "initial.session.json"
    session.write_text(json.dumps({"id": "x", "app_name": "a", "user_id": "u", "state": {"rolls": 6}, "events": []}))
    later = eval_set(tmp_path / "later" / "a.test.json", case("c", roll(6, 7)))
    assert assert_eval("adk_agents:root_agent", later, 1, initial_session_file=str(session))[0].passed
    raising = eval_set(tmp_path / "raising" / "a.test.json", case("c", turn("raise")))
    with pytest.raises(AssertionError, match="the agent failed: RuntimeError: the tool shed burns"):
        assert_eval("adk_agents:odd", raising, 1, max_attempts=1)


EVALUATED = []


def flaky(metric, actual, expected, scenario):
    """A criterion that cannot evaluate the second run."""
    EVALUATED.append(actual)
    if len(EVALUATED) == 2:
        raise OSError("no quota")
    return SimpleNamespace(overall_score=1.0, per_invocation_results=[])


def test_assert_eval_fails_where_one_of_the_runs_could_not_be_evaluated(agents, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flaky_criteria", sys.modules[__name__])
    EVALUATED.clear()
    config = {"criteria": {"mine": 0.5}, "custom_metrics": {"mine": {"code_config": {"name": "flaky_criteria.flaky"}}}}
    (tmp_path / "test_config.json").write_text(json.dumps(config))
    path = eval_set(tmp_path / "a.test.json", case("a", roll(6)))
    with pytest.raises(AssertionError, match=r"dice: a: mine .*no quota"):
        assert_eval("adk_agents", path, 2, print_detailed_results=False)


@pytest.mark.filterwarnings("ignore")  # google-adk warns of itself
def test_verdicts_agree_with_those_of_adk_itself(agents, tmp_path):
    from .oracle import evaluate_as_adk

    cases = [
        case("exact", roll(6), roll(8, 2)),
        case("half the calls", roll(6), roll(8, 2, calls=[])),
        case("words", roll(6, reply="It was 61 I think")),
        case("extra call expected", roll(6, calls=[("roll", {"sides": 6}), ("roll", {"sides": 6})])),
        case("as numbers", roll(6, calls=[("roll", {"sides": 6.0})])),
    ]
    criteria = {"tool_trajectory_avg_score": {"threshold": 0.6, "match_type": "IN_ORDER"}, "response_match_score": 0.6}
    path = eval_set(tmp_path / "x.evalset.json", *cases)
    ours = adk_evaluate(agents.dice_agent(thinks=False), [path], read_config({"criteria": criteria}, "x"))

    made = evaluate_as_adk(agents.dice_agent(thinks=False), path, {"criteria": criteria})
    assert statuses(ours) == {name: made[name].final_eval_status.name for name in statuses(ours)}
    assert set(statuses(ours).values()) == {"PASSED", "FAILED"}
    for verdict in ours.cases:
        scores = {m.metric_name: m.score for m in made[verdict.eval_id].overall_eval_metric_results}
        for metric in verdict.metrics:
            if metric.criterion.name != "invocation_duration_v1":
                assert metric.score == scores[metric.criterion.name], (verdict.eval_id, metric)


def constant(eval_metric, actual_invocations, expected_invocations, conversation_scenario):
    """A custom metric in ADK's form: the share of turns with a response, if the threshold is known."""
    from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, PerInvocationResult

    assert eval_metric.criterion.threshold == 0.75
    assert len(expected_invocations) == len(actual_invocations)
    scores = [float(bool(a.final_response)) for a in actual_invocations]
    made = [PerInvocationResult(actual_invocation=a, score=s) for a, s in zip(actual_invocations, scores, strict=True)]
    overall = sum(scores) / len(scores)
    return EvaluationResult(overall_score=overall, overall_eval_status=EvalStatus.PASSED, per_invocation_results=made)


async def constant_async(*given):
    return constant(*given)


@pytest.mark.parametrize("function", ["constant", "constant_async"])
def test_custom_metrics_are_functions_of_adks_invocations(agents, tmp_path, monkeypatch, function):
    monkeypatch.setitem(sys.modules, "evalbeam_test_adk", sys.modules[__name__])
    custom = {"mine": {"code_config": {"name": f"evalbeam_test_adk.{function}"}}}
    config = read_config({"criteria": {"mine": 0.75}, "custom_metrics": custom}, "x")
    path = eval_set(tmp_path / "x.evalset.json", case("c", roll(6), roll(6, 2)))
    found = adk_evaluate(agents.dice_agent(), [path], config)
    first = found.cases[0].metrics[0]
    assert (first.criterion.name, first.score) == ("mine", 1.0)
    assert found.passed
    custom["mine"]["code_config"]["name"] = "no.such"
    absent = read_config({"criteria": {"mine": 1}, "custom_metrics": custom}, "x")
    with pytest.raises(ConfigError, match=r"custom_metrics\.mine"):
        adk_evaluate(agents.dice_agent(), [path], absent)


def test_what_a_command_line_may_name(folder, tmp_path, capsys):
    by_id = Path(folder) / "mine.evalset.json"
    eval_set(by_id, case("a", roll(6)), case("b", roll(6, reply="no")), name="mine")
    assert find_eval_files(["mine:a"], folder) == [f"{by_id}:a"]
    assert main(["adk-eval", folder, "mine:a"]) == 0
    assert main(["adk-eval", folder, "mine", "--print_detailed_results", "--output", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert "b: FAILED: response_match_score 0 < 0.8" in shown.out
    assert "  turn 1: roll 6" in shown.out
    assert "results: " in shown.err
    for words, args in {
        "no eval set 'nobody'": ["nobody"],
        "no case 'z' (allowed: a, b)": ["mine:z"],
        "no .test.json and no EvalSet in": [str(tmp_path / "out")],
    }.items():
        assert main(["adk-eval", folder, *args]) == 2
        assert words in capsys.readouterr().err


def test_two_cases_of_one_name_have_verdicts_of_their_own(agents, tmp_path):
    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6)), case("a", roll(6, reply="no")), name="twins")
    found = adk_evaluate("adk_agents:root_agent", [path])
    assert sorted(c.status for c in found.cases) == ["FAILED", "PASSED"]
    shown = "\n".join(render_details(found))
    assert ("twins: a: PASSED" in shown, "twins: a: FAILED" in shown) == (True, True)
    (written,) = write_results(found, str(tmp_path / "history"), "app")
    told = results.EvalSetResult.model_validate_json(Path(written).read_text())
    assert sorted(c.final_eval_status.value for c in told.eval_case_results) == [1, 2]


def test_the_criteria_of_files(tmp_path):
    one, two = (eval_set(tmp_path / n, case("c", roll(6))) for n in ("a.test.json", "b.test.json"))
    assert choose_config([one], None).criteria[0].threshold == 1.0
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.2}}')
    assert choose_config([one], None).criteria == (Criterion("response_match_score", 0.2),)
    assert len(choose_config([one, two], None).criteria) == 2
    assert choose_config([one, two], str(tmp_path / "test_config.json")).criteria[0].threshold == 0.2


def test_scenarios_are_told_apart(agents, tmp_path, folder, capsys, monkeypatch):
    scenario = {"eval_id": "s", "conversation_scenario": {"starting_prompt": "roll 6", "conversation_plan": "more"}}
    path = eval_set(tmp_path / "x.evalset.json", case("c", roll(6)), scenario)
    with pytest.raises(ConfigError, match="no criterion applies to the scenario 's'"):
        adk_evaluate(agents.dice_agent(), [path])
    custom = {"mine": {"code_config": {"name": "os.path.join"}}}
    (tmp_path / "x.json").write_text(json.dumps({"criteria": {"mine": 1}, "custom_metrics": custom}))
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    assert main(["adk-eval", folder, path, "--config_file_path", str(tmp_path / "x.json")]) == 1
    assert "s: FAILED: NeedsSimulator: the client of the user simulator could not" in capsys.readouterr().out


def test_criteria_that_a_judge_decides_are_named_before_any_call(agents, tmp_path, monkeypatch):
    from evalbeam.transforms import registry

    known = [n for n in registry.names("metric") if not n.endswith(("safety_v1", "hallucinations_v1"))]
    monkeypatch.setattr(registry, "names", lambda kind: known)
    config = read_config({"criteria": {"safety_v1": 1, "hallucinations_v1": 0.5, "response_match_score": 1}}, "x")
    path = eval_set(tmp_path / "x.evalset.json", case("c", roll(6)))
    with pytest.raises(ConfigError, match="safety_v1, hallucinations_v1: needs a judge model"):
        adk_evaluate(agents.dice_agent(), [path], config)


def test_a_malformed_case_stops_no_set(agents, tmp_path, folder, capsys):
    misspelt = {**roll(6), "intermediate_date": {"tool_uses": []}}
    path = eval_set(tmp_path / "x.evalset.json", case("good", roll(6)), case("bad", misspelt), case("late", roll(8)))
    found = adk_evaluate(agents.dice_agent(), [path])
    assert statuses(found) == {"good": "PASSED", "bad": "FAILED", "late": "PASSED"}
    bad = next(c for c in found.cases if c.eval_id == "bad")
    assert bad.error == f"{path}: case 'bad': conversation.0: " + (
        "unknown key 'intermediate_date'; did you mean 'intermediate_data' or 'intermediate_responses'?"
    )
    assert main(["adk-eval", folder, path]) == 1
    assert "dice: FAILED, tests passed: 2, failed: 1" in capsys.readouterr().out
    (written,) = (Path(folder) / ".adk" / "eval_history").glob("*.evalset_result.json")
    opened = results.EvalSetResult.model_validate_json(written.read_bytes())
    assert {c.eval_id: c.final_eval_status.name for c in opened.eval_case_results} == statuses(found)
    with pytest.raises(AssertionError, match=r"case 'bad': conversation\.0: unknown key"):
        assert_eval("adk_agents", path, 1, print_detailed_results=False)
    only = eval_set(tmp_path / "y.evalset.json", case("bad", misspelt))
    with pytest.raises(ConfigError, match="unknown key 'intermediate_date'"):
        adk_evaluate(agents.dice_agent(), [only])


def test_a_malformed_line_is_one_rejected_case(agents, tmp_path):
    lines = [json.dumps(case("a", roll(6))), '{"eval_id": "b", "conv', "", json.dumps(case("c", roll(8)))]
    path = tmp_path / "lines.evalset.json"
    path.write_text("\n".join(lines))
    found = adk_evaluate(agents.dice_agent(), [str(path)])
    assert statuses(found) == {"a": "PASSED", "case 2": "FAILED", "c": "PASSED"}
    assert f"{path}: line 2: " in next(c.error for c in found.cases if c.error)
    (error,) = found.run.errors_table.to_dict("records")
    assert error["line"] == 2


def test_a_run_takes_its_criteria_from_a_test_config(agents, tmp_path, capsys):
    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6)), case("b", roll(6, reply="no")))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    output = tmp_path / "out"
    config = {
        "dataset": {"path": path},
        "agent": {"target": "adk_agents:root_agent", "type": "adk"},
        "criteria": str(tmp_path / "test_config.json"),
        "output": {"path": str(output), "format": "adk_result"},
    }
    (tmp_path / "eval.json").write_text(json.dumps(config))
    assert main(["run", str(tmp_path / "eval.json")]) == 1
    (written,) = (output / "instances").glob("*.evalset_result.json")
    opened = results.EvalSetResult.model_validate_json(written.read_bytes())
    found = {c.eval_id: c.final_eval_status.name for c in opened.eval_case_results}
    assert (opened.eval_set_id, found) == ("dice", {"a": "PASSED", "b": "FAILED"})
    assert (output / "summary.jsonl").exists()
    manifest = json.loads((output / "manifest.json").read_text())
    assert [c["statistic"] for c in manifest["criteria"]] == ["mean", "min", "error_count"]


def test_an_eval_set_is_a_dataset_like_any_other(agents, tmp_path):
    path = eval_set(
        tmp_path / "x.evalset.json", case("a", roll(6), roll(8, 2), topic="t"), case("b", roll(6), topic="u")
    )
    metrics = ["trajectory_exact_match", "exact_match", "tool_trajectory_avg_score"]
    found = evaluate(path, metrics, agents.dice_agent(), slices=[["topic"]])
    means = {m: found.summary_metrics[f"{m}/mean"] for m in metrics}
    assert means == {"trajectory_exact_match": 1.0, "exact_match": 1.0, "tool_trajectory_avg_score": 1.0}
    assert EvaluationConfig.parse(found.manifest["config"]).agent.type == "adk"
