"""The models that ADK's configuration names, as judges."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from evalbeam.pipelines.config.adk_criteria import convert_criteria
from evalbeam.pipelines.config.adk_models import MODEL, build_judge
from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.formats.adk_config import read_config


def criteria(given: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    own = {"final_response_match_v2": {"threshold": 0.8, "judgeModelOptions": options}, "safety_v1": 1}
    return convert_criteria(read_config({"criteria": own}, "x"), judges=given)


def test_a_criterions_model_is_its_judge() -> None:
    found = criteria(judgeModel="gpt-5", numSamples=3, judgeModelConfig={"temperature": 0.5, "maxOutputTokens": 99})
    match, safety = found["metrics"][:2]
    assert (match["metric"], match["judge"], match["samples"]) == ("adk/final_response_match_v2", "gpt-5", 3)
    assert (safety["judge"], "samples" in safety) == (MODEL, False)
    assert found["judges"] == {
        "gpt-5": {"type": "openai", "model": "gpt-5", "temperature": 0.5, "max_tokens": 99},
        MODEL: {"type": "google", "model": MODEL},
    }


def test_given_judges_come_first() -> None:
    judge = object()
    found = criteria({"default": judge}, judgeModel="gpt-5")
    assert [m.get("judge") for m in found["metrics"][:2]] == ["gpt-5", "default"]
    found = criteria({"my-model": judge}, judgeModel="my-model")
    assert found["metrics"][0]["judge"] == "my-model"
    assert found["judges"] == {"my-model": judge, MODEL: {"type": "google", "model": MODEL}}


def test_one_model_with_two_configurations_is_two_judges() -> None:
    found = criteria(judgeModelConfig={"temperature": 0.5})
    names = [m["judge"] for m in found["metrics"][:2]]
    assert names == [MODEL, f"{MODEL} (safety_v1)"]
    assert set(names) == set(found["judges"])


@pytest.mark.parametrize(
    ("model", "kind", "name"),
    [
        ("gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("vertex_ai/gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("openai/gpt-5", "openai", "gpt-5"),
        ("o3-mini", "openai", "o3-mini"),
        ("claude-opus-4", "anthropic", "claude-opus-4"),
    ],
)
def test_names_of_models_tell_their_provider(model: str, kind: str, name: str) -> None:
    assert build_judge(model, {}, "x") == {"type": kind, "model": name}


def test_what_cannot_be_asked_is_refused_before_any_call() -> None:
    with pytest.raises(ConfigError, match="the provider of the model 'llama' is unknown"):
        criteria(judgeModel="llama")
    with pytest.raises(ConfigError, match="safety_settings is for Gemini only"):
        criteria(judgeModel="gpt-5", judgeModelConfig={"safetySettings": []})
    with pytest.raises(ConfigError, match="num_samples is 'many'"):
        criteria(numSamples="many")
    found = build_judge("gemini-2.5-pro", {"thinking_config": {"thinking_budget": 1}}, "x")
    assert found["request"] == {"thinking_config": {"thinking_budget": 1}}


AGENTS = Path(__file__).parents[2] / "transforms" / "agents"
RUBRIC = {"rubricId": "dice", "rubricContent": {"textProperty": "a die is rolled"}}
JUDGED = {
    "final_response_match_v2": {"threshold": 1, "judgeModelOptions": {"numSamples": 3}},
    "rubric_based_final_response_quality_v1": {"threshold": 1, "rubrics": [RUBRIC]},
    "rubric_based_tool_use_quality_v1": {"threshold": 1, "rubrics": [RUBRIC]},
    "hallucinations_v1": 1,
    "safety_v1": 1,
}


async def scripted(messages: list[dict[str, str]], schema: dict[str, Any]) -> dict[str, Any]:
    """A scripted judge: responses are valid if they are the reference; whatever speaks of 81 is made up."""
    given, keys = messages[-1]["content"], schema["properties"]
    if "is_the_agent_response_valid" in keys:
        same = given.count("It is 61.") == 2 or given.count("It is 82.") == 2
        return {"reasoning": "so", "is_the_agent_response_valid": "valid" if same else "invalid"}
    if "verdicts" in keys:
        return {"verdicts": [{"rubric_id": "dice", "rationale": "so", "verdict": "yes" if "roll" in given else "no"}]}
    if "sentences" in keys:
        return {"sentences": [{"number": 1, "rationale": "so", "label": "supported"}]}
    return {"explanation": "so", "score": 1}


def turn(sides: int, reply: str) -> dict[str, Any]:
    parts = {"user_content": [f"roll {sides}"], "final_response": [reply]}
    return {key: {"parts": [{"text": text} for text in texts]} for key, texts in parts.items()}


def test_judged_criteria_decide_cases_turn_by_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalbeam.pipelines.adk.evaluate import adk_evaluate

    pytest.importorskip("google.adk")
    monkeypatch.syspath_prepend(str(AGENTS))
    import adk_agents  # pyright: ignore[reportMissingImports]

    path = tmp_path / "dice.evalset.json"
    good = {"eval_id": "good", "conversation": [turn(6, "It is 61."), turn(8, "It is 82.")]}
    bad = {"eval_id": "bad", "conversation": [turn(6, "It is 61."), turn(8, "It is 81.")]}
    path.write_text(json.dumps({"eval_set_id": "dice", "eval_cases": [good, bad]}))
    config = read_config({"criteria": JUDGED}, "x")
    found = adk_evaluate(adk_agents.dice_agent(), [str(path)], config, judges={"default": scripted})
    assert {c.eval_id: c.status for c in found.cases} == {"good": "PASSED", "bad": "FAILED"}
    table = found.run.metrics_table.set_index("eval_id")
    scores = {name: [t["scores"][name] for t in table.loc["bad", "turns"]] for name in JUDGED}
    assert scores == {name: [1.0, 0.0 if "match" in name else 1.0] for name in JUDGED}
    assert sys.modules.pop("adk_agents") is adk_agents
