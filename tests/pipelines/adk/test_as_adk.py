"""`adk_verdicts`: the verdicts are those of google-adk's own evaluation service."""

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from evalbeam import AgentEvaluator, adk_evaluate, evaluate
from evalbeam.pipelines.adk.evaluate import choose_config
from evalbeam.pipelines.cli.commands import adk
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.adk_config import read_config
from evalbeam.schemas.instance import Usage
from evalbeam.schemas.judging import Reply

from .cases import case, eval_set, roll, statuses, turn

pytest.importorskip("google.adk.evaluation.local_eval_service")
pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns of itself


def test_a_missing_reference_scores_0(agents, tmp_path):
    from .oracle import evaluate_as_adk

    cases = [
        case("none", roll(6, reply=None)),
        case("one of two", roll(6), roll(8, 2, reply=None)),
        case("all", roll(6)),
        case("neither", turn("roll 6")),
        case("empty", roll(6, reply="")),
    ]
    path = eval_set(tmp_path / "x.evalset.json", *cases)
    config = {"criteria": {"tool_trajectory_avg_score": 0.5, "response_match_score": 0.5}}
    theirs = evaluate_as_adk(agents.dice_agent(thinks=False), path, config)
    ours = adk_evaluate(agents.dice_agent(thinks=False), [path], read_config(config, "x"), lenient=True)
    assert statuses(ours) == {name: case.final_eval_status.name for name, case in theirs.items()}
    for found in ours.cases:
        scores = {m.metric_name: m.score for m in theirs[found.eval_id].overall_eval_metric_results}
        assert found.metrics[1].score == scores["response_match_score"], found.eval_id
    strict = adk_evaluate(agents.dice_agent(thinks=False), [path], read_config(config, "x"))
    assert statuses(strict)["none"] == "NOT_EVALUATED"


class TooMany(Exception):
    status_code = 429


def refuse(*asked):
    raise TooMany("quota of the day")


RESPONSE, MATCH = "response_match_score", "final_response_match_v2"


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        ({"type": "google", "model": "gemini-2.5-flash"}, "NoClient: ValueError: .*key"),
        ({"type": "function", "target": refuse, "rate_limit_timeout": 0.01, "backoff": 0.001}, "TooMany|not asked"),
    ],
    ids=["no key", "persistent 429"],
)
def test_a_judge_that_fails_for_good_leaves_its_metric_open(agents, tmp_path, monkeypatch, judge, words):
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    path = eval_set(tmp_path / "x.evalset.json", *(case(f"c{i}", roll(i)) for i in range(20)))
    config = read_config({"criteria": {RESPONSE: 0.9, MATCH: {"threshold": 0.5}}}, "x")
    found = adk_evaluate(agents.dice_agent(thinks=False), [path], config, judges={"gemini-2.5-flash": judge})
    for verdict in found.cases:
        match, judged = verdict.metrics[:2]
        assert (match.score, match.status, judged.status) == (1.0, "PASSED", "NOT_EVALUATED")
        assert re.search(words, judged.reason), judged.reason
    assert set(statuses(found).values()) == {"NOT_EVALUATED"}
    lenient = adk_evaluate(agents.dice_agent(), [path], config, judges={"gemini-2.5-flash": judge}, lenient=True)
    assert lenient.passed


def test_an_agent_that_is_always_refused_ends(agents, tmp_path):
    path = eval_set(tmp_path / "x.evalset.json", case("c", turn("limited")))
    options = {"rate_limit_timeout": 0.01, "backoff": 0.001}
    found = adk_evaluate(agents.odd, [path], agent_options=options)
    assert statuses(found)["c"] != "PASSED"
    assert "RESOURCE_EXHAUSTED" in found.cases[0].error


def test_the_call_policy_is_set_by_options(folder, tmp_path, capsys):
    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6)))
    given = ["--max_attempts", "1", "--backoff", "0.5", "--set", "agent.failure_window=7"]
    assert main(["adk-eval", folder, path, "--output", str(tmp_path / "out"), *given]) == 0
    agent = json.loads((tmp_path / "out" / "manifest.json").read_text())["config"]["agent"]
    assert (agent["max_attempts"], agent["backoff"], agent["failure_window"]) == (1, 0.5, 7)
    assert main(["adk-eval", folder, path, "--set", "output.path=x"]) == 2
    assert "output.path" in capsys.readouterr().err
    assert {name for name, _, _ in adk._POLICY} < set(CallPolicy.model_fields)


SEEN = {}


def describe(eval_metric, actual_invocations, expected_invocations, conversation_scenario):
    """A custom metric that keeps what it was given, and whose status is not what its score says."""
    from google.adk.evaluation import eval_case, evaluator

    def shown(turn):
        calls = [(c.name, c.args) for c in eval_case.get_all_tool_calls(turn.intermediate_data)]
        answers = [r.response for r in eval_case.get_all_tool_responses(turn.intermediate_data)]
        said = [p.text for p in (turn.final_response and turn.final_response.parts) or ()]
        return calls, answers, said, turn.user_content.parts[0].text

    agents = [
        {
            name: (agent.name, agent.instructions, len(agent.tool_declarations))
            for name, agent in a.app_details.agent_details.items()
        }
        for a in actual_invocations
    ]
    SEEN["given"] = {
        "metric": (eval_metric.metric_name, eval_metric.threshold, eval_metric.criterion.model_dump()),
        "actual": [shown(turn) for turn in actual_invocations],
        "expected": [t.model_dump(exclude_none=True) for t in expected_invocations],
        "uses": [[u.name for u in t.intermediate_data.tool_uses] for t in expected_invocations],
        "agents": agents,
        "scenario": conversation_scenario,
    }
    SEEN["ids"] = [turn.invocation_id for turn in actual_invocations]
    SEEN["actual"] = actual_invocations
    made = [evaluator.PerInvocationResult(actual_invocation=a, score=0.9) for a in actual_invocations]
    status = evaluator.EvalStatus[eval_metric.criterion.model_dump()["wanted"]]
    return evaluator.EvaluationResult(overall_score=0.9, overall_eval_status=status, per_invocation_results=made)


@pytest.mark.parametrize("wanted", ["PASSED", "FAILED", "NOT_EVALUATED"])
def test_custom_metrics_get_what_google_adk_gives_them(agents, tmp_path, monkeypatch, wanted):
    from .oracle import evaluate_as_adk

    monkeypatch.setitem(sys.modules, "describing", sys.modules[__name__])
    first = {**roll(6), "invocation_id": "i-1", "creation_timestamp": 3.0}
    path = eval_set(tmp_path / "x.evalset.json", case("c", first, roll(8, 2)))
    custom = {"mine": {"code_config": {"name": "describing.describe"}}}
    criteria = {"mine": {"threshold": 0.95 if wanted == "PASSED" else 0.5, "wanted": wanted}, RESPONSE: 0.5}
    config = {"criteria": criteria, "custom_metrics": custom}
    theirs = evaluate_as_adk(agents.dice_agent(thinks=False), path, config)
    given = SEEN.pop("given")
    ours = adk_evaluate(agents.dice_agent(thinks=False), [path], read_config(config, "x"), lenient=True)
    assert SEEN["given"] == given
    assert statuses(ours) == {"c": theirs["c"].final_eval_status.name}
    assert ours.cases[0].metrics[0].status == theirs["c"].overall_eval_metric_results[0].eval_status.name == wanted
    assert len(set(SEEN["ids"])) == 2
    assert [u.args for u in SEEN["actual"][0].intermediate_data.tool_uses] == [{"sides": 6}]


def test_details_are_printed_in_the_order_of_the_file_and_the_page_is_written(folder, tmp_path, capsys):
    names = [f"c{i * 7 % 12}" for i in range(12)]
    path = eval_set(tmp_path / "some name.json", *(case(name, roll(i + 2)) for i, name in enumerate(names)))
    given = ["adk-eval", folder, path, "--print_detailed_results", "--output", str(tmp_path / "out")]
    assert main(given) == 0
    shown = re.findall(r"^dice: (c\d+): PASSED", capsys.readouterr().out, re.MULTILINE)
    assert shown == names
    assert list((tmp_path / "out").glob("*.html"))


def test_result_files_of_google_adk_are_recorded_answers(agents, folder, tmp_path):
    from google.adk.evaluation.eval_result import EvalSetResult

    from .oracle import evaluate_as_adk

    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6), roll(8, 2)), case("b", roll(6, reply="no")))
    theirs = evaluate_as_adk(agents.dice_agent(thinks=False), path, {"criteria": {RESPONSE: 0.5}})
    written = EvalSetResult(eval_set_result_id="r", eval_set_id="dice", eval_case_results=list(theirs.values()))
    file = tmp_path / "app_dice_1.evalset_result.json"
    for text in (written.model_dump_json(), json.dumps(written.model_dump_json())):
        file.write_text(text)
        found = evaluate(str(file), [RESPONSE, "tool_trajectory_avg_score"])
        table = found.metrics_table.set_index("eval_id")
        for name, result in theirs.items():
            assert table.loc[name, f"{RESPONSE}/score"] == result.overall_eval_metric_results[0].score
        assert list(table["tool_trajectory_avg_score/score"]) == [1.0, 1.0]


@pytest.mark.parametrize("name", ["my-agent", "plain_agent_7"])
def test_folders_with_a_hyphen_and_modules_with_a_factory_alone(agents, tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import agent\n")
    (folder / "helper.py").write_text("import adk_agents\n")
    source = (
        "from .helper import adk_agents\n\n\nasync def get_agent_async():\n    return adk_agents.dice_agent(), None\n"
    )
    (folder / "agent.py").write_text(source)
    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6)))
    assert adk_evaluate(str(folder), [path]).passed


def test_agent_evaluator_has_the_methods_of_google_adks(agents, tmp_path, monkeypatch):
    import asyncio
    import inspect

    from google.adk.evaluation.agent_evaluator import AgentEvaluator as Theirs
    from google.adk.evaluation.eval_config import EvalConfig
    from google.adk.evaluation.eval_set import EvalSet

    for name in ("evaluate", "evaluate_eval_set", "migrate_eval_data_to_new_schema", "find_config_for_test_file"):
        theirs, ours = (list(inspect.signature(getattr(c, name)).parameters) for c in (Theirs, AgentEvaluator))
        assert ours[: len(theirs)] == theirs[: len(ours)] or set(ours) - {"more"} <= set(theirs)
    path = eval_set(tmp_path / "a.test.json", case("good", roll(6)))
    asyncio.run(AgentEvaluator.evaluate("adk_agents", path, num_runs=1, output_file=None))
    made = EvalSet.model_validate_json(Path(path).read_text())
    config = EvalConfig(criteria={"tool_trajectory_avg_score": 1.0})
    asyncio.run(AgentEvaluator.evaluate_eval_set("adk_agents", made, eval_config=config, num_runs=1))
    bad = eval_set(tmp_path / "b.test.json", case("bad", roll(6, calls=[])))
    with pytest.raises(AssertionError, match="bad: tool_trajectory_avg_score is 0"):
        asyncio.run(
            AgentEvaluator.evaluate_eval_set(
                "adk_agents", json.loads(Path(bad).read_text()), {"tool_trajectory_avg_score": 1.0}, num_runs=1
            )
        )
    for name in ("artifact_service", "eval_set_results_manager", "output_file", "app_name"):
        with pytest.raises(ConfigError, match=name):
            asyncio.run(AgentEvaluator.evaluate("adk_agents", path, **{name: "x"}))


def test_a_test_config_may_have_commas_before_brackets(tmp_path):
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.5,},}')
    assert choose_config([], str(tmp_path / "test_config.json")).criteria[0].threshold == 0.5


ASKED = []


def speak(messages, schema):
    """The model of a user who wants one more roll."""
    ASKED.append(messages)
    last = "roll 8" in messages[-1]["content"]
    return Reply("</finished>" if last else "roll 8", usage=Usage(100, 7))


def told(metric, actual, expected, scenario):
    from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, PerInvocationResult

    made = [PerInvocationResult(actual_invocation=a, score=1.0) for a in actual]
    status = EvalStatus.PASSED if scenario.user_persona.id == "EVALUATOR" else EvalStatus.FAILED
    return EvaluationResult(overall_score=1.0, overall_eval_status=status, per_invocation_results=made)


TEMPLATE = "{{ persona.description }}|{{ conversation_plan }}|{{ conversation_history }}|{{ stop_signal }}"


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_users_are_simulated_as_the_test_config_says_and_their_cost_is_counted(agents, tmp_path, monkeypatch, template):
    from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry

    monkeypatch.setitem(sys.modules, "telling", sys.modules[__name__])
    ASKED.clear()
    scenario = {"starting_prompt": "roll 6", "conversation_plan": "one more", "user_persona": "EVALUATOR"}
    path = eval_set(tmp_path / "x.evalset.json", {"eval_id": "s", "conversation_scenario": scenario})
    simulator = {"model": "gpt-x", "maxAllowedInvocations": 5, "include_function_calls": True}
    config = {
        "criteria": {"mine": 1},
        "custom_metrics": {"mine": {"code_config": {"name": "telling.told"}}},
        "user_simulator_config": {**simulator, **({"custom_instructions": template} if template else {})},
    }
    judge = {"type": "function", "target": speak, "max_attempts": 2}
    found = adk_evaluate(agents.dice_agent(), [path], read_config(config, "x"), judges={"gpt-x": judge})
    assert found.passed, found.cases
    assert [turn["prompt"] for turn in found.run.metrics_table["turns"][0]] == ["roll 6", "roll 8"]
    (spent,) = found.run.manifest["judging"]["spent"]
    assert (spent["judge"], spent["answers"], spent["input_tokens"], spent["output_tokens"]) == (
        "agent.simulator",
        2,
        200,
        14,
    )
    persona = get_default_persona_registry().get_persona("EVALUATOR")
    first = ASKED[0][-1]["content"]
    assert persona.description in first
    assert "61" in first
    if template:
        assert first.startswith(f"{persona.description}|one more|user: roll 6\n\n")
        assert first.endswith("|</finished>")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "llm_audio"}, "llm_audio' is not supported"),
        ({"max_invocations": 3}, "unknown key 'max_invocations'; did you mean 'max_allowed_invocations'"),
        ({"max_allowed_invocations": "3"}, "a whole number"),
    ],
)
def test_a_simulator_that_cannot_be_is_refused_by_name(given, words):
    with pytest.raises(ConfigError, match=words):
        read_config({"criteria": {RESPONSE: 1}, "user_simulator_config": given}, "x")


def test_a_template_of_a_user_needs_what_google_adk_asks_for(agents, tmp_path):
    scenario = {"starting_prompt": "roll 6", "conversation_plan": "one more"}
    path = eval_set(tmp_path / "x.evalset.json", {"eval_id": "s", "conversation_scenario": scenario})
    config = {"criteria": {"safety_v1": 1}, "user_simulator_config": {"custom_instructions": "{{ stop_signal }}"}}
    with pytest.raises(ConfigError, match=r"template lacks \{\{ conversation_plan \}\}, \{\{ conversation_history"):
        adk_evaluate(agents.dice_agent(), [path], read_config(config, "x"))


def test_eval_sets_and_results_on_a_storage(folder, tmp_path, capsys):
    from google.adk.evaluation.eval_result import EvalSetResult

    app = Path(folder).name
    eval_set(tmp_path / "bucket" / app / "evals" / "eval_sets" / "mine.evalset.json", case("a", roll(6)), name="mine")
    uri = str(tmp_path / "bucket")
    assert main(["adk-eval", folder, "mine:a", "--eval_storage_uri", uri, "--log_level", "error"]) == 0
    assert "mine: PASSED" in capsys.readouterr().out
    (written,) = (tmp_path / "bucket" / app / "evals" / "eval_history").glob("*.evalset_result.json")
    assert EvalSetResult.model_validate_json(written.read_bytes()).eval_set_id == "mine"
    assert not (Path(folder) / ".adk").exists()
    assert main(["adk-eval", folder, "mine", "--eval_storage_uri", f"{uri}/other"]) == 2
    assert "no eval set 'mine'" in capsys.readouterr().err


def test_features_of_google_adk_are_switched(folder, tmp_path, monkeypatch, capsys):
    from google.adk.features import FeatureName, is_feature_enabled

    feature = FeatureName.PROGRESSIVE_SSE_STREAMING
    for switch in ("ENABLE", "DISABLE"):
        monkeypatch.setenv(f"ADK_{switch}_{feature.value}", "0")
    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6)))
    assert main(["adk-eval", folder, path, "--disable_features", feature.value]) == 0
    assert not is_feature_enabled(feature)
    assert main(["adk-eval", folder, path, "--enable_features", "PROGRESSIVE_SSE_STREEMING"]) == 2
    assert f"did you mean '{feature.value}'" in capsys.readouterr().err


def test_every_option_of_adk_eval_is_one_here():
    import argparse

    command = pytest.importorskip("google.adk.cli.cli_tools_click").cli_eval
    parser = argparse.ArgumentParser()
    adk.add(parser.add_subparsers())
    (actions,) = parser._subparsers._group_actions
    ours = {option for action in actions.choices["adk-eval"]._actions for option in action.option_strings}
    theirs = {name for option in command.params for name in option.opts if name.startswith("--")}
    assert theirs - {"--help"} <= ours


def test_a_file_of_scenarios_is_an_eval_set(tmp_path):
    from google.adk.evaluation.conversation_scenarios import ConversationScenarios
    from google.adk.evaluation.eval_set import EvalSet

    source, target = tmp_path / "scenarios.json", tmp_path / "made.evalset.json"
    given = {
        "scenarios": [
            {"starting_prompt": "a", "conversation_plan": "b"},
            {"startingPrompt": "c", "conversationPlan": "d"},
        ]
    }
    source.write_text(json.dumps(given))
    session = tmp_path / "session.json"
    session.write_text('{"app_name": "a", "user_id": "u", "state": {}}')
    assert main(["adk-migrate", str(source), str(target), "--initial_session_file", str(session)]) == 0
    made = EvalSet.model_validate_json(target.read_bytes())
    texts = [json.dumps(s.model_dump(), sort_keys=True) for s in ConversationScenarios.model_validate(given).scenarios]
    assert [c.eval_id for c in made.eval_cases] == [hashlib.sha256(t.encode()).hexdigest()[:8] for t in texts]
    assert {c.session_input.user_id for c in made.eval_cases} == {"u"}


def test_every_test_of_the_coverage_page_exists(root):
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", (root / "docs" / "reference" / "adk-coverage.md").read_text()))
    written = {
        name for file in (root / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert named - written == set()
    assert len(named) > 30


def test_every_public_set_gets_the_verdict_of_google_adk(conformance, tmp_path):
    from .oracle import Echo, evaluate_as_adk

    criteria = {"criteria": {"tool_trajectory_avg_score": 0.3, RESPONSE: 0.05}}
    seen = []
    for file in sorted((conformance / "adk" / "files").glob("*.json")):
        if file.name.endswith((".test.json", ".evalset.json")) and "scenario" not in file.name:
            path = str(tmp_path / file.name)
            assert main(["adk-migrate", str(file), path]) == 0
            theirs = evaluate_as_adk(Echo(name="echo"), path, criteria)
            ours = adk_evaluate(Echo(name="echo"), path, criteria, lenient=True)
            assert statuses(ours) == {name: found.final_eval_status.name for name, found in theirs.items()}
            for found in ours.cases:
                scores = [m.score for m in theirs[found.eval_id].overall_eval_metric_results[:2]]
                assert [m.score for m in found.metrics[:2]] == scores
                seen.append(found.status)
    assert len(seen) == 13
    assert set(seen) == {"PASSED", "FAILED"}


def test_criteria_may_be_a_file_or_its_content(agents, tmp_path):
    path = eval_set(tmp_path / "x.evalset.json", case("a", roll(6)))
    (tmp_path / "mine.json").write_text('{"criteria": {"response_match_score": 0.4}}')
    for config in (str(tmp_path / "mine.json"), tmp_path / "mine.json", {"criteria": {RESPONSE: 0.4}}):
        assert adk_evaluate(agents.dice_agent(), path, config).cases[0].metrics[0].criterion.threshold == 0.4
