"""Every form of the fixtures of google-adk and adk-samples is read, and judged, as google-adk does."""

from __future__ import annotations

import json
import sys

import pytest

from evalbeam.pipelines.adk.evaluate import adk_evaluate, load_cases
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.adk import case_fields
from evalbeam.schemas.formats.adk_config import read_config

from . import forms

pytest.importorskip("google.adk.evaluation.local_eval_service")
pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns of itself


def write_forms(folder):
    """Writes a file of each form and returns the paths."""
    written = {
        f"{name}.test.json": {"eval_set_id": name, "name": name, "description": None, "eval_cases": cases}
        for name, cases in forms.CASES.items()
    } | forms.OLDER
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content))
    return [str(folder / name) for name in written]


def script_of(paths):
    """Returns what google-adk expects: (calls, text) of a turn by the first prompt of its case and its number."""
    from google.adk.evaluation.eval_case import get_all_tool_calls

    from .oracle import load_as_adk

    found = {}
    for path in paths:
        for case in load_as_adk(path).eval_cases:
            first = case.conversation[0].user_content.parts[0].text
            for number, turn in enumerate(case.conversation):
                parts = turn.final_response.parts if turn.final_response else ()
                calls = [(c.name, c.args) for c in get_all_tool_calls(turn.intermediate_data)]
                found[first, number] = calls, "".join(p.text or "" for p in parts)
    return found


def answer(calls, text, mode):
    """Changes what is expected of a turn; google-adk ends the evaluation if an agent does nothing at all."""
    text = text if text or calls else "Well."
    if mode == "wrong argument":
        (name, args), *rest = calls or [("surprise", {})]
        return [(name, {**(args or {}), "wrong": 1}), *rest], text
    if mode == "no arguments":
        return [(name, {}) for name, _ in calls], text
    return calls, "Something else entirely." if mode == "other text" else text


def make_agent(script, mode):
    """Returns an agent that follows a script."""
    from google.adk.agents import BaseAgent
    from google.adk.events.event import Event
    from google.genai.types import Content, FunctionCall, FunctionResponse, Part

    class Scripted(BaseAgent):
        async def _run_async_impl(self, ctx):
            asked = [e.content.parts[0].text for e in ctx.session.events if e.author == "user"]
            calls, text = answer(*script[asked[0], len(asked) - 1], mode)
            for name, args in calls:
                call = Part(function_call=FunctionCall(name=name, args=args))
                result = Part(function_response=FunctionResponse(name=name, response={"result": "ok"}))
                for role, part in (("model", call), ("user", result)):
                    yield self._say(ctx, role, part)
            if mode == "session":
                session = ctx.session
                text = json.dumps([session.app_name, session.user_id, session.state], sort_keys=True)
            if text:
                yield self._say(ctx, "model", Part(text=text))

        def _say(self, ctx, role, part):
            content = Content(role=role, parts=[part])
            return Event(author=self.name, invocation_id=ctx.invocation_id, content=content)

    return Scripted(name="scripted")


def as_many_calls(eval_metric, actual_invocations, expected_invocations, conversation_scenario=None):
    """A custom metric: 1 if a turn has as many calls as expected."""
    from google.adk.evaluation.eval_case import get_all_tool_calls
    from google.adk.evaluation.evaluator import EvalStatus, EvaluationResult, PerInvocationResult

    counts = [
        [len(get_all_tool_calls(turn.intermediate_data)) for turn in turns]
        for turns in (actual_invocations, expected_invocations)
    ]
    scores = [float(a == b) for a, b in zip(*counts, strict=True)]
    status = [EvalStatus.PASSED if s >= eval_metric.criterion.threshold else EvalStatus.FAILED for s in scores]
    made = [
        PerInvocationResult(actual_invocation=a, expected_invocation=e, score=s, eval_status=t)
        for a, e, s, t in zip(actual_invocations, expected_invocations, scores, status, strict=True)
    ]
    mean = sum(scores) / len(scores)
    overall = EvalStatus.PASSED if mean >= eval_metric.criterion.threshold else EvalStatus.FAILED
    return EvaluationResult(overall_score=mean, overall_eval_status=overall, per_invocation_results=made)


def verdicts_as_adk(paths, config, script, mode):
    from .oracle import evaluate_as_adk

    found = {}
    for path in paths:
        for name, case in evaluate_as_adk(make_agent(script, mode), path, config).items():
            scores = {m.metric_name: m.score for m in case.overall_eval_metric_results if m.metric_name in SCORED}
            name = name.rpartition("/")[2].removesuffix(".test.json") if name == path else name
            found[name] = case.final_eval_status.name, scores
    return found


RUNS = [(name, mode) for name in forms.CONFIGS for mode in ("as expected", "wrong argument", "other text")]
RUNS.remove(("custom", "other text"))  # it counts calls
RUNS += [("numbers", "no arguments")]
SCORED = ("tool_trajectory_avg_score", "response_match_score", "as_many_calls", "tool_call_count_v1")


@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_every_form_gets_the_verdict_of_google_adk(tmp_path, monkeypatch, name, mode):
    monkeypatch.setitem(sys.modules, "form_metrics", sys.modules[__name__])
    paths, config = write_forms(tmp_path), forms.CONFIGS[name]
    script = script_of(paths)
    theirs = verdicts_as_adk(paths, config, script, mode)
    ours = adk_evaluate(make_agent(script, mode), paths, read_config(config, name), lenient=True)
    found = {
        case.eval_id: (case.status, {m.criterion.name: m.score for m in case.metrics if m.criterion.name in SCORED})
        for case in ours.cases
    }
    assert found == theirs
    assert len(found) == 14
    assert {status for status, _ in found.values()} >= ({"PASSED"} if mode == "as expected" else {"FAILED"})


def test_agents_see_the_session_that_google_adk_starts(tmp_path):
    from .oracle import evaluate_as_adk

    paths = write_forms(tmp_path)
    script = script_of(paths)
    ours = adk_evaluate(make_agent(script, "session"), paths, {"criteria": {"response_match_score": 0.5}})
    found = {row["eval_id"]: row["response"] for row in ours.run.metrics_table.to_dict("records")}
    for path in paths:
        theirs = evaluate_as_adk(make_agent(script, "session"), path, {"criteria": {"response_match_score": 0.5}})
        for name, case in theirs.items():
            told = case.eval_metric_result_per_invocation[-1].actual_invocation.final_response.parts[0].text
            name = name.rpartition("/")[2].removesuffix(".test.json") if name == path else name
            seen, expected = json.loads(found[name]), json.loads(told)
            if expected[0] == "EvaluationGenerator":  # what google-adk calls an app without a session
                seen[0] = expected[0]
            assert seen == expected, name


@pytest.mark.parametrize("name", forms.CONFIGS | forms.JUDGED_CONFIGS)
def test_every_config_is_read_as_google_adk_reads_it(name):
    from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config

    given = (forms.CONFIGS | forms.JUDGED_CONFIGS)[name]
    theirs = {
        metric.metric_name: metric.criterion.model_dump(by_alias=False, exclude_none=True)
        for metric in get_eval_metrics_from_config(EvalConfig.model_validate(given))
        if metric.criterion is not None
    }
    ours = read_config(given, name)
    assert [c.name for c in ours.criteria] == list(theirs)
    for criterion in ours.criteria:
        told = theirs[criterion.name]
        assert criterion.threshold == told.pop("threshold")
        assert set(criterion.options) <= {snake(key) for key in told}, criterion.options
    simulator = EvalConfig.model_validate(given).user_simulator_config
    if simulator is None:
        assert ours.user_simulator is None
    else:
        assert ours.user_simulator["max_allowed_invocations"] == simulator.max_allowed_invocations
        assert ours.user_simulator["model"] == simulator.model


def snake(key):
    from pydantic.alias_generators import to_snake

    return to_snake(key)


def test_scenarios_are_read_as_google_adk_reads_them(tmp_path):
    from .oracle import load_as_adk

    path = tmp_path / "scenarios.test.json"
    path.write_text(json.dumps({"eval_set_id": "test", "eval_cases": forms.SCENARIOS}))
    for case, theirs in zip(load_cases(str(path)), load_as_adk(str(path)).eval_cases, strict=True):
        found = case_fields(case)
        assert found["scenario"]["starting_prompt"] == theirs.conversation_scenario.starting_prompt
        assert found["scenario"]["conversation_plan"] == theirs.conversation_scenario.conversation_plan
        persona = theirs.conversation_scenario.user_persona
        assert found["scenario"].get("user_persona") == (persona and persona.id)
        assert found.get("session") == (theirs.session_input and theirs.session_input.model_dump(exclude_none=True))


@pytest.mark.parametrize("name", forms.REFUSED)
def test_what_google_adk_refuses_is_refused(tmp_path, name):
    from .oracle import load_as_adk

    path = tmp_path / "x.evalset.json"
    path.write_text(json.dumps(forms.REFUSED[name]))
    with pytest.raises((KeyError, TypeError, AssertionError, ValueError)):
        load_as_adk(str(path))
    with pytest.raises(ConfigError, match=r"allowed|unknown key|eval_id: Field required"):
        load_cases(str(path))


def test_a_set_without_cases_is_read_and_refused_only_by_an_evaluation(tmp_path):
    from .oracle import load_as_adk

    path = tmp_path / "x.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "x", "name": "x", "description": None, "eval_cases": []}))
    assert load_as_adk(str(path)).eval_cases == load_cases(str(path)) == []
    with pytest.raises(ConfigError, match="no cases"):
        adk_evaluate(None, str(path))
