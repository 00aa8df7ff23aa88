"""`adk_verdicts`: the verdicts are those of google-adk's own evaluation service."""

import json
import re
import sys

import pytest

from evalbeam.pipelines.adk.evaluate import adk_evaluate
from evalbeam.pipelines.cli.commands import adk
from evalbeam.pipelines.cli.main import main
from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.schemas.formats.adk_config import read_config

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
