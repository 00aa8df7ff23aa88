"""The forms in which public notebooks define metrics, agents and datasets, beside those of notebook_forms.py."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pandas as pd
from vertexai import evaluation as theirs

from .notebook_forms import PARTS, TRAJECTORY, GenerativeModel, answers, articles, check, form


def read_object(outputs: list[str]) -> dict[str, Any]:
    """What a notebook makes of its judge's text: the object in it, or nothing."""
    try:
        return {"result": json.loads(re.sub(r"(.*```json|```.*)", "", outputs[0].strip()))}
    except ValueError:
        return {"result": None}


@form
def parser_that_returns_an_object_or_nothing(sdk: Any) -> None:
    ask = '{\n  "asked": {prompt},\n  "said": {response},\n  "expected": {golden},\n}\n'
    config = sdk.CustomOutputConfig(return_raw_output=True, parsing_fn=read_object)
    for text, expected in ((f"{ask}Write an object", {"valid": "yes", "why": "because"}), (ask, None)):
        metric = sdk.PointwiseMetric(metric="final", metric_prompt_template=text, custom_output_config=config)
        rater = sdk.AutoraterConfig(sampling_count=1)
        task = sdk.EvalTask(dataset=answers(golden=["uno", "x"]), metrics=[metric], autorater_config=rater)
        assert [row["final/result"] for _, row in task.evaluate().metrics_table.iterrows()] == [expected] * 2


@form
def pair_of_parts_with_a_baseline(sdk: Any) -> None:
    template = sdk.PairwiseMetricPromptTemplate(
        criteria=PARTS["criteria"],
        rating_rubric={"A": "A reads better", "SAME": "both alike", "B": "B reads better"},
        input_variables=["prompt", "reference"],
    )
    metric = sdk.PairwiseMetric(metric="pair", metric_prompt_template=template, baseline_model=GenerativeModel("old"))
    dataset = pd.DataFrame({"prompt": ["one", "two"], "reference": ["a", "b"]})
    result = sdk.EvalTask(dataset=dataset, metrics=[metric], experiment="own").evaluate(model=GenerativeModel("new"))
    check(result, "pair/pairwise_choice", "pair/explanation")


@dataclass(kw_only=True, frozen=True)
class Question:
    """What a notebook keeps of a rubric."""

    text: str
    answer: str


def parse_records(text: str) -> dict[str, Any]:
    """What a notebook makes of its writer's text: the rubrics as one text, and objects of its own."""
    found = [Question(text=text, answer="yes") for text in re.findall(r"<question>(.*?)</question>", text)]
    return {"questions": "\n".join(f"<question>{one.text}<choices>yes,no" for one in found), "records": found}


def parse_results(outputs: list[str]) -> dict[str, Any]:
    """What a notebook makes of its judge's text: the verdict on each question."""
    pairs = re.findall(r"Question: (.*?)\nVerdict: (.*)", outputs[0])
    return {"rubric_results": {question.lower(): verdict.lower() for question, verdict in pairs}}


@form
def rubrics_that_are_objects_of_the_notebook(sdk: Any) -> None:
    template = 'Write questions, as {"keywords": "{1}[a] {2}[b]"}: {prompt}'
    metric = sdk.RubricBasedMetric(
        generation_config=sdk.RubricGenerationConfig(prompt_template=template, parsing_fn=parse_records),
        critique_metric=sdk.PointwiseMetric(
            metric="gecko",
            metric_prompt_template="Give verdicts: {rubrics} {response}",
            custom_output_config=sdk.CustomOutputConfig(return_raw_output=True, parsing_fn=parse_results),
        ),
    )
    dataset = metric.generate_rubrics(pd.DataFrame({"prompt": ["one", "two"], "said": ["uno", "due"]}))
    table = sdk.EvalTask(dataset=dataset, metrics=[metric]).evaluate(response_column_name="said").metrics_table
    for _, row in table.iterrows():
        assert [row["gecko/rubric_results"][one.text.lower()] for one in row["records"]] == ["[[yes]]", "[[no]]"]
    at_once = sdk.EvalTask(dataset=answers(), metrics=[metric]).evaluate().metrics_table
    assert list(at_once["gecko/rubric_results"]) == list(table["gecko/rubric_results"])


@form
def names_of_the_examples(sdk: Any) -> None:
    examples = sdk.MetricPromptTemplateExamples
    names = examples.list_example_metric_names()
    assert set(names) == set(theirs.MetricPromptTemplateExamples.list_example_metric_names())
    assert all(examples.get_prompt_template(name) for name in names)
    single = [name for name in names if not name.startswith(("pairwise", "multi_turn"))]
    check(sdk.EvalTask(dataset=answers(), metrics=single, experiment="e").evaluate(), *(f"{n}/score" for n in single))
    pairs = [name for name in names if name.startswith("pairwise") and "multi_turn" not in name]
    task = sdk.EvalTask(dataset=answers(baseline_model_response=["1", "2"]), metrics=pairs)
    check(task.evaluate(), *(f"{name}/pairwise_choice" for name in pairs))


@form
def conversations_with_raw_messages(sdk: Any) -> None:
    rows = [
        {"user": "hi", "reference": "ho", "conversation_history": [], "response": "uno"},
        {"user": "hm", "reference": "uh", "conversation_history": ["hi", "ho"], "response": "due"},
    ]
    dataset = pd.DataFrame([{**row, "response_obj": SimpleNamespace(content=row["response"])} for row in rows])

    def faithful(instance: dict[str, Any]) -> Any:
        return json.loads(json.dumps({"explanation": instance["reference"], "faithful": 4}))

    metrics = ["fluency", sdk.CustomMetric(name="faithful", metric_function=faithful)]
    task = sdk.EvalTask(dataset=dataset, metrics=metrics, experiment="e", metric_column_mapping={"prompt": "user"})
    check(task.evaluate(), "fluency/score", "faithful/score", "faithful/explanation")


@form
def answers_of_numbers_and_texts(sdk: Any) -> None:
    trajectories = {name: [TRAJECTORY] * 2 for name in ("reference_trajectory", "predicted_trajectory")}
    dataset = pd.DataFrame({"prompt": ["a", "b"], "response": [500, "a text"], **trajectories})
    template = sdk.PointwiseMetricPromptTemplate(**PARTS, input_variables=["prompt", "predicted_trajectory"])
    follows = sdk.PointwiseMetric(metric="follows", metric_prompt_template=template)
    metrics = ["trajectory_exact_match", "trajectory_in_order_match", "safety", follows]
    result = sdk.EvalTask(dataset=dataset, metrics=metrics, experiment="e").evaluate(experiment_run_name="r")
    check(result, *(f"{metric}/score" for metric in metrics))
    means = {k: v for k, v in result.summary_metrics.items() if any(f"{metric}/mean" in k for metric in metrics)}
    assert len(means) == len(metrics)
    assert min(means.values()) <= max(means.values())


@form
def agent_with_an_event_loop_of_its_own(sdk: Any) -> None:
    async def answer(query: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"response": query, "predicted_trajectory": TRAJECTORY}

    def agent(prompt: str) -> dict[str, Any]:
        result = asyncio.run(answer(prompt))
        result["predicted_trajectory"] = json.dumps(result["predicted_trajectory"])
        return result

    dataset = pd.DataFrame({"prompt": ["on", "off"], "reference_trajectory": [TRAJECTORY] * 2})
    task = sdk.EvalTask(dataset=dataset, metrics=["trajectory_exact_match", "coherence"], output_uri_prefix="b/single")
    table = check(task.evaluate(runnable=agent), "trajectory_exact_match/score", "coherence/score").metrics_table
    for _, row in table.iterrows():
        for said, wanted in zip(row["predicted_trajectory"], row["reference_trajectory"], strict=True):
            assert (said["tool_name"], said["tool_input"]) == (wanted["tool_name"], wanted["tool_input"])


@form
def model_function_with_a_second_parameter(sdk: Any) -> None:
    def model(prompt: str, generation_config: dict[str, float] = {"temperature": 0.2}) -> str:  # noqa: B006
        return f"{prompt} {generation_config['temperature']}"

    task = sdk.EvalTask(dataset=articles(), metrics=["rouge_l_sum", "summarization_quality"], experiment="e")
    result = task.evaluate(model=model, prompt_template="Sum {context}.\nSummary:", experiment_run_name="r")
    check(result, "rouge_l_sum/score", "summarization_quality/score")
    assert result.metrics_table["response"][0] == "Sum long.\nSummary: 0.2"


@form
def answers_under_other_names_beside_peoples_ratings(sdk: Any) -> None:
    columns = {
        "asked": ["one", "two"],
        "said": ["uno", "due"],
        "truth": ["uno", "x"],
        "complete/human_rating": ["4", "1"],
    }
    text = "**Result:** <an integer between 1 and 5>\n{asked} {said}\nScore 1: poor\nScore 5: best\n{truth}"
    metric = sdk.PointwiseMetric(metric="complete", metric_prompt_template=text)
    for dataset in (pd.DataFrame(columns), columns):
        rater = sdk.AutoraterConfig(autorater_model="gemini-2.5-pro")
        task = sdk.EvalTask(dataset=dataset, metrics=[metric], autorater_config=rater, output_uri_prefix="out/results")
        result = check(task.evaluate(), "complete/score")
        assert list(result.metrics_table["complete/human_rating"]) == ["4", "1"]
        found = sdk.evaluate_autorater(evaluate_autorater_input=result.metrics_table, eval_metrics=[metric])
        assert {"confusion_matrix", "confusion_matrix_labels"} <= found.eval_result[0].keys()
