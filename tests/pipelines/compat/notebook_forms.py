"""The forms in which public notebooks call the SDK's EvalTask, each as a function of the namespace they import from.

Collected from the notebooks of GoogleCloudPlatform/generative-ai (gemini/evaluation and evaltask_approach), of public
tutorials and of the SDK's docstrings: the forms of their calls, not their texts. A form uses only names that the SDK
has; `sdk` is evalbeam, in place of vertexai.evaluation and vertexai.preview.evaluation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

FORMS: dict[str, Callable[..., None]] = {}
"""The forms by name."""
PARTS: dict[str, Any] = {
    "criteria": {"clear": "It reads well.", "fun": "It amuses."},
    "rating_rubric": {"1": "good", "0": "fair", "-1": "poor"},
}
QUESTION = (
    "Rate it.\n\n## Rating Rubric\n5: best\n3: fair\n1: worst\n\nAsked: {instruction}\nText: {context}\n{response}"
)
PAIR = "Compare.\n\nAsked: {prompt}\n\nA: {baseline_model_response}\n\nB: {response}"
TRAJECTORY = [{"tool_name": "set_light", "tool_input": {"room": "hall"}}]
CALLS = json.dumps({"content": "", "tool_calls": [{"name": "set_light", "arguments": {"room": "hall"}}]})


class GenerativeModel:
    """A fake with the interface of vertexai.generative_models.GenerativeModel."""

    def __init__(self, model_name: str, generation_config: Any = None, safety_settings: Any = None) -> None:
        self._model_name = model_name

    def generate_content(self, contents: Any, **_: Any) -> Any:
        return SimpleNamespace(text=f"{self._model_name}: {contents}")


def form(function: Callable[..., None]) -> Callable[..., None]:
    """Adds a form to the table."""
    FORMS[function.__name__] = function
    return function


def answers(**columns: Any) -> pd.DataFrame:
    """A dataset of two recorded answers."""
    return pd.DataFrame({"prompt": ["one", "two"], "response": ["uno", "due"], **columns})


def articles() -> pd.DataFrame:
    """A dataset from whose columns prompts are made."""
    return pd.DataFrame({"instruction": ["Sum up"] * 2, "context": ["long", "longer"], "reference": ["a", "b"]})


def check(result: Any, *columns: str) -> Any:
    """A result has the columns with values in every row; means are in its summary."""
    table = result.metrics_table
    for column in columns:
        assert column in table.columns, f"no column {column}: {list(table.columns)}"
        assert table[column].notna().all(), f"{column}: {list(table[column])}, {errors(table)}"
        if column.endswith("/score"):
            assert result.summary_metrics[column.replace("/score", "/mean")] is not None
    assert result.summary_metrics["row_count"] == len(table)
    return result


def errors(table: pd.DataFrame) -> dict[str, Any]:
    return {c: list(table[c]) for c in table.columns if c.endswith(("/error", "error_message"))}


@form
def criteria_rubric_and_an_experiment(sdk: Any) -> None:
    template = sdk.PointwiseMetricPromptTemplate(**PARTS)
    quality = sdk.PointwiseMetric(metric="text_quality", metric_prompt_template=template)
    print(quality.metric_prompt_template)
    dataset = pd.DataFrame({"response": ["uno", "due"]})
    result = sdk.EvalTask(dataset=dataset, metrics=[quality], experiment="mine").evaluate()
    check(result, "text_quality/score", "text_quality/explanation")
    assert result.metadata["experiment"] == "mine"
    assert result.metadata["experiment_run"]


@form
def models_in_a_loop_with_a_template(sdk: Any) -> None:
    examples = sdk.MetricPromptTemplateExamples.Pointwise
    metrics = [examples.TEXT_QUALITY, examples.FLUENCY, examples.SAFETY, examples.VERBOSITY]
    task = sdk.EvalTask(dataset=articles(), metrics=metrics, experiment="models")
    for name in ("gemini-2.0-flash", "gemini-2.0-flash-lite"):
        model = GenerativeModel(name, generation_config={"temperature": 0.4})
        template = "{instruction}. Article: {context}. Summary:"
        result = task.evaluate(model=model, prompt_template=template, experiment_run_name=f"eval-{name}")
        check(result, "response", *(f"{metric}/score" for metric in metrics))
        assert result.metrics_table["response"][0] == f"{name}: Sum up. Article: long. Summary:"
    task.display_runs()


@form
def baseline_model_of_a_pairwise_metric(sdk: Any) -> None:
    template = sdk.MetricPromptTemplateExamples.get_prompt_template("pairwise_text_quality")
    metric = sdk.PairwiseMetric(
        metric="pairwise_text_quality", metric_prompt_template=template, baseline_model=GenerativeModel("old")
    )
    task = sdk.EvalTask(dataset=articles(), metrics=[metric], experiment="sxs")
    result = task.evaluate(model=GenerativeModel("new"), prompt_template="{instruction}: {context}")
    check(result, "baseline_model_response", "pairwise_text_quality/pairwise_choice")
    assert result.metrics_table["baseline_model_response"][0] == "old: Sum up: long"
    assert round(result.summary_metrics["pairwise_text_quality/candidate_model_win_rate"] * 100) == 100


@form
def baseline_model_that_is_a_function(sdk: Any) -> None:
    metric = sdk.PairwiseMetric(metric="better", metric_prompt_template=PAIR, baseline_model=str.lower)
    dataset = pd.DataFrame({"prompt": ["One", "Two"]})
    result = sdk.EvalTask(dataset=dataset, metrics=[metric]).evaluate(model=str.upper)
    check(result, "better/pairwise_choice", "better/explanation")
    assert list(result.metrics_table["baseline_model_response"]) == ["one", "two"]


@form
def baseline_model_by_name(sdk: Any) -> None:
    metric = sdk.PairwiseMetric(metric="better", metric_prompt_template=PAIR, baseline_model="gemini-2.0-flash")
    result = sdk.EvalTask(dataset=pd.DataFrame({"prompt": ["One"]}), metrics=[metric]).evaluate(model="gemini-2.5-pro")
    check(result, "response", "baseline_model_response", "better/pairwise_choice")


@form
def two_recorded_answers(sdk: Any) -> None:
    metric = sdk.MetricPromptTemplateExamples.Pairwise.SUMMARIZATION_QUALITY
    task = sdk.EvalTask(dataset=answers(baseline_model_response=["1", "2"]), metrics=[metric])
    result = check(task.evaluate(), f"{metric.metric_name}/pairwise_choice")
    assert result.summary_metrics[f"{metric.metric_name}/baseline_model_win_rate"] == 0


@form
def two_recorded_answers_under_other_names(sdk: Any) -> None:
    metric = sdk.PairwiseMetric(metric="better", metric_prompt_template=PAIR)
    dataset = pd.DataFrame({"prompt": ["one"], "palm": ["1"], "gemini": ["uno"]})
    result = sdk.EvalTask(dataset=dataset, metrics=[metric], experiment="migrate").evaluate(
        response_column_name="gemini",
        baseline_model_response_column_name="palm",
        experiment_run_name="palm-to-gemini",
    )
    check(result, "better/pairwise_choice")


@form
def template_as_text(sdk: Any) -> None:
    dataset = pd.DataFrame({"instruction": ["ask"], "context": ["text"], "response": ["yes"]})
    metrics = [sdk.PointwiseMetric(metric=name, metric_prompt_template=QUESTION) for name in ("relevance", "use")]
    result = sdk.EvalTask(dataset=dataset, metrics=metrics).evaluate(retry_timeout=250, evaluation_service_qps=5)
    check(result, "relevance/score", "use/score")


@form
def template_variables_mapped_to_columns(sdk: Any) -> None:
    dataset = pd.DataFrame({"question": ["ask"], "news": ["text"], "answer": ["yes"]})
    metric = sdk.PointwiseMetric(metric="relevance", metric_prompt_template=QUESTION)
    mapping = {"instruction": "question", "context": "news", "response": "answer"}
    check(sdk.EvalTask(dataset=dataset, metrics=[metric], metric_column_mapping=mapping).evaluate(), "relevance/score")


@form
def template_over_recorded_answers(sdk: Any) -> None:
    dataset = articles().assign(response=["uno", "due"], baseline_model_response=["1", "2"])
    metric = sdk.MetricPromptTemplateExamples.Pairwise.QUESTION_ANSWERING_QUALITY
    result = sdk.EvalTask(dataset=dataset, metrics=[metric]).evaluate(prompt_template="{instruction} \n {context}")
    check(result, f"{metric}/pairwise_choice", f"{metric}/explanation")
    assert result.metrics_table["prompt"][0] == "Sum up \n long"


@form
def columns_of_objects(sdk: Any) -> None:
    messages = [SimpleNamespace(content=text) for text in ("uno", "due")]
    dataset = answers(message=messages, history=[["hi", "ho"], []], context=[{"image": "gs://b/i"}] * 2)

    def look(instance: dict[str, Any]) -> dict[str, Any]:
        return {"look": len(instance["context"]["image"]), "explanation": instance["response"]}

    metrics = ["fluency", sdk.CustomMetric(name="look", metric_function=look)]
    table = check(sdk.EvalTask(dataset=dataset, metrics=metrics).evaluate(), "look/score").metrics_table
    assert [message.content for message in table["message"]] == ["uno", "due"]


@form
def parsers_of_the_sdk(sdk: Any) -> None:
    from vertexai.preview.evaluation import utils

    output = sdk.CustomOutputConfig(return_raw_output=True, parsing_fn=utils.parse_pointwise_rubric_result)
    metric = sdk.RubricBasedMetric(
        generation_config=sdk.RubricGenerationConfig(
            prompt_template='Write JSON: {{"questions": [...]}} {prompt}', parsing_fn=utils.parse_rubrics
        ),
        critique_metric=sdk.PointwiseMetric(
            metric="own", metric_prompt_template="Give verdicts: {rubrics} {response}", custom_output_config=output
        ),
    )
    dataset = metric.generate_rubrics(pd.DataFrame({"prompt": ["one", "two"]}))
    result = sdk.EvalTask(dataset=dataset, metrics=[metric]).evaluate(model=GenerativeModel("m"))
    check(result, "own/score", "own/rubric_verdict_pairs")
    assert result.summary_metrics["own/mean"] == 0.5


@form
def recorded_trajectories_as_texts(sdk: Any) -> None:
    texts = [json.dumps(TRAJECTORY)] * 2
    dataset = answers(predicted_trajectory=texts, reference_trajectory=texts)
    template = sdk.PointwiseMetricPromptTemplate(**PARTS, input_variables=["prompt", "predicted_trajectory"])
    assert "{predicted_trajectory}" in template.prompt_data
    metrics = ["trajectory_exact_match", "safety", sdk.PointwiseMetric(metric="f", metric_prompt_template=template)]
    check(sdk.EvalTask(dataset=dataset, metrics=metrics).evaluate(), "trajectory_exact_match/score", "f/score")


@form
def rouge_by_its_bare_name(sdk: Any) -> None:
    metrics = ["rouge", "bleu", "exact_match"]
    result = sdk.EvalTask(dataset=answers(reference=["uno", "x"]), metrics=metrics).evaluate()
    check(result, *(f"{metric}/score" for metric in metrics))


@form
def tables_for_the_display_functions_of_the_sdk(sdk: Any) -> None:
    from vertexai.preview.evaluation import notebook_utils

    result = sdk.EvalTask(dataset=answers(reference=["uno", "x"]), metrics=["bleu", "fluency"]).evaluate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notebook_utils, "is_ipython_available", lambda: True)
        notebook_utils.display_eval_result(result, title="title", metrics=["bleu"])
        notebook_utils.display_explanations(result, num=2, metrics=["fluency"])


@form
def computed_metrics_by_name(sdk: Any) -> None:
    metrics = ["exact_match", "bleu", "rouge_1", "rouge_2", "rouge_l", "rouge_l_sum"]
    result = sdk.EvalTask(dataset=answers(reference=["uno", "x"]), metrics=metrics).evaluate()
    check(result, *(f"{metric}/score" for metric in metrics))


@form
def rouge_objects_of_two_kinds(sdk: Any) -> None:
    metrics = [sdk.Rouge(rouge_type="rouge1"), sdk.Rouge(rouge_type="rougeLsum", use_stemmer=True)]
    result = sdk.EvalTask(dataset=answers(reference=["uno", "x"]), metrics=metrics).evaluate()
    assert sum(c.startswith("rouge") and c.endswith("/score") for c in result.metrics_table) == 2


@form
def function_that_returns_more_than_its_score(sdk: Any) -> None:
    def judge(instance: dict[str, Any]) -> dict[str, Any]:
        return {"fact": 0.5, "explanation": instance["response"], "verdict": "half"}

    metric = sdk.CustomMetric(name="fact", metric_function=judge)
    result = sdk.EvalTask(dataset=answers(), metrics=[metric], experiment="own").evaluate()
    check(result, "fact/score", "fact/explanation", "fact/verdict")
    assert result.summary_metrics["fact/mean"] == 0.5


@form
def model_function_and_references(sdk: Any) -> None:
    dataset = pd.DataFrame({"prompt": ["one", "two"], "reference": ["ONE", "2"]})
    metrics = ["exact_match", sdk.MetricPromptTemplateExamples.Pointwise.FLUENCY]
    check(sdk.EvalTask(dataset=dataset, metrics=metrics).evaluate(model=str.upper), "exact_match/score")


@form
def model_by_name(sdk: Any) -> None:
    task = sdk.EvalTask(dataset=pd.DataFrame({"prompt": ["one"]}), metrics=["fluency"])
    check(task.evaluate(model="gemini-2.5-flash"), "response", "fluency/score")


@form
def agent_with_a_trajectory(sdk: Any) -> None:
    def agent(prompt: str) -> dict[str, Any]:
        return {"response": prompt, "predicted_trajectory": TRAJECTORY}

    dataset = pd.DataFrame({"prompt": ["on"], "reference_trajectory": [TRAJECTORY]})
    metrics = [f"trajectory_{n}" for n in ("exact_match", "in_order_match", "any_order_match", "precision", "recall")]
    metrics += [sdk.TrajectorySingleToolUse(tool_name="set_light"), sdk.MetricPromptTemplateExamples.Pointwise.SAFETY]
    template = sdk.PointwiseMetricPromptTemplate(
        **{**PARTS, "rating_rubric": {"1": "follows", "0": "does not"}},
        input_variables=["prompt", "predicted_trajectory"],
    )
    metrics.append(sdk.PointwiseMetric(metric="follows", metric_prompt_template=template))
    task = sdk.EvalTask(dataset=dataset, metrics=metrics, experiment="agents", output_uri_prefix="")
    result = task.evaluate(runnable=agent, experiment_run_name="agent-1")
    check(result, "latency_in_seconds", "failure", "predicted_trajectory", *(f"{metric}/score" for metric in metrics))


@form
def reasoning_engine(sdk: Any) -> None:
    class Engine:
        def query(self, *, input: str) -> dict[str, Any]:
            step = {"kwargs": {"tool": "set_light", "tool_input": {"room": "hall"}}}
            return {"output": input, "intermediate_steps": [[step, "ok"]]}

    dataset = pd.DataFrame({"prompt": ["on"], "reference_trajectory": [json.dumps(TRAJECTORY)]})
    result = sdk.EvalTask(dataset=dataset, metrics=["trajectory_exact_match"]).evaluate(runnable=Engine())
    check(result, "trajectory_exact_match/score")


@form
def recorded_trajectories(sdk: Any) -> None:
    dataset = pd.DataFrame({"predicted_trajectory": [TRAJECTORY], "reference_trajectory": [TRAJECTORY]})
    metrics = ["trajectory_precision", "trajectory_recall"]
    check(sdk.EvalTask(dataset=dataset, metrics=metrics).evaluate(), "trajectory_precision/score")


@form
def agent_with_any_parameter(sdk: Any) -> None:
    def agent(instance: dict[str, Any]) -> dict[str, Any]:
        return {"response": f"got {instance}"}

    result = sdk.EvalTask(dataset=answers(reference=["got one", "x"])[["prompt", "reference"]], metrics=["exact_match"])
    assert list(result.evaluate(runnable=agent).metrics_table["exact_match/score"]) == [1.0, 0.0]


@form
def recorded_tool_calls(sdk: Any) -> None:
    metrics = [f"tool_{n}" for n in ("call_valid", "name_match", "parameter_key_match", "parameter_kv_match")]
    dataset = pd.DataFrame({"response": [CALLS], "reference": [CALLS]})
    result = sdk.EvalTask(dataset=dataset, metrics=metrics, experiment="tools").evaluate(experiment_run_name="r1")
    check(result, *(f"{metric}/score" for metric in metrics))


@form
def autorater_of_the_task(sdk: Any) -> None:
    config = sdk.AutoraterConfig(sampling_count=3)
    task = sdk.EvalTask(dataset=answers(), metrics=["coherence"], autorater_config=config)
    check(task.evaluate(), "coherence/score")


@form
def autorater_of_a_metric(sdk: Any) -> None:
    model = "projects/p/locations/us-central1/publishers/google/models/gemini-2.5-pro"
    config = sdk.AutoraterConfig(autorater_model=model, sampling_count=1, flip_enabled=True)
    metric = sdk.PairwiseMetric(metric="better", metric_prompt_template=PAIR, autorater_config=config)
    assert sdk.EvalTask(dataset=answers(), metrics=[metric]).autorater_config is None
    assert metric.autorater_config.sampling_count == 1


def parse_labels(outputs: list[str]) -> dict[str, Any]:
    """What a notebook makes of its judge's text: fenced JSON with a label for each sentence."""
    labels = [s["label"] for s in json.loads(re.sub(r"(.*```json|```.*)", "", outputs[0].strip()))]
    return {"verdicts": labels, "model_resp_score": labels.count("supported") / len(labels)}


@form
def parsing_function_for_the_judges_text(sdk: Any) -> None:
    config = sdk.CustomOutputConfig(return_raw_output=True, parsing_fn=parse_labels)
    metric = sdk.PointwiseMetric(
        metric="grounded", metric_prompt_template="Label sentences: {context} {response}", custom_output_config=config
    )
    autorater = sdk.AutoraterConfig(sampling_count=1)
    task = sdk.EvalTask(dataset=articles(), metrics=[metric], autorater_config=autorater)
    result = task.evaluate(model=GenerativeModel("m"), prompt_template="{instruction} {context}")
    check(result, "grounded/model_resp_score", "grounded/verdicts")
    assert list(result.metrics_table["grounded/model_resp_score"]) == [0.5, 0.5]


@form
def raw_text_of_the_judge(sdk: Any) -> None:
    config = sdk.CustomOutputConfig(return_raw_output=True)
    metric = sdk.PointwiseMetric(
        metric="said", metric_prompt_template="Label sentences: {response}", custom_output_config=config
    )
    result = sdk.EvalTask(dataset=answers(), metrics=[metric]).evaluate()
    assert "supported" in str(result.metrics_table["said/raw_output"][0])


@form
def rubrics_written_then_judged(sdk: Any) -> None:
    metric = sdk.PredefinedRubricMetrics.Pointwise.INSTRUCTION_FOLLOWING
    with_rubrics = metric.generate_rubrics(pd.DataFrame({"prompt": ["one", "two"]}))
    assert all(len(rubrics) for rubrics in with_rubrics["rubrics"])
    result = sdk.EvalTask(dataset=with_rubrics, metrics=[metric]).evaluate(model=GenerativeModel("m"))
    check(result, f"{metric}/score", f"{metric}/rubric_verdict_pairs", "rubrics")


@form
def rubrics_in_one_step(sdk: Any) -> None:
    metric = sdk.PredefinedRubricMetrics.Pointwise.TEXT_QUALITY
    result = sdk.EvalTask(dataset=answers(), metrics=[metric]).evaluate()
    check(result, "rb_text_quality/score", "rb_text_quality/rubric_verdict_pairs")


@form
def rubric_based_instruction_following(sdk: Any) -> None:
    name = "rubric_based_instruction_following"
    result = sdk.EvalTask(dataset=answers()[["prompt"]], metrics=[name]).evaluate(model=GenerativeModel("m"))
    check(result, f"{name}/score", f"{name}/per_rubric_result")


def parse_questions(text: str) -> dict[str, Any]:
    return {"questions": re.findall(r"<question>(.*?)</question>", text), "description": "a text"}


def parse_answers(outputs: list[str]) -> dict[str, Any]:
    found = re.findall(r"Verdict: (\w+)", outputs[0])
    return {"score": found.count("YES") / len(found), "rubric_verdict_pairs": found}


@form
def own_rubrics_and_parsers(sdk: Any) -> None:
    generation = sdk.RubricGenerationConfig(prompt_template="Write questions: {prompt}", parsing_fn=parse_questions)
    critique = sdk.PointwiseMetric(
        metric="own",
        metric_prompt_template="Answer questions: {rubrics} {response}",
        custom_output_config=sdk.CustomOutputConfig(return_raw_output=True, parsing_fn=parse_answers),
    )
    metric = sdk.RubricBasedMetric(generation_config=generation, critique_metric=critique)
    dataset = metric.generate_rubrics(answers())
    assert list(dataset["description"]) == ["a text"] * 2
    result = sdk.EvalTask(dataset=dataset, metrics=[metric], experiment="gecko").evaluate()
    check(result, "own/score", "own/rubric_verdict_pairs")
    assert result.summary_metrics["own/mean"] == 0.5


@form
def model_that_writes_rubrics(sdk: Any) -> None:
    class Writer(GenerativeModel):
        def generate_content(self, contents: Any, **_: Any) -> Any:
            return SimpleNamespace(text="<question>Is it short?</question>")

    for model in (Writer("writer"), "gemini-2.0-flash"):
        metric = sdk.RubricBasedMetric(
            generation_config=sdk.RubricGenerationConfig(
                prompt_template="Write questions: {prompt}", model=model, parsing_fn=parse_questions
            ),
            critique_metric=sdk.PointwiseMetric(metric="own", metric_prompt_template="Check {rubrics}: {response}"),
        )
        check(sdk.EvalTask(dataset=answers(), metrics=[metric]).evaluate(), "own/score")


@form
def pairwise_rubrics(sdk: Any) -> None:
    metric = sdk.PredefinedRubricMetrics.Pairwise.TEXT_QUALITY
    dataset = answers(baseline_model_response=["1", "2"])
    result = sdk.EvalTask(dataset=dataset, metrics=[metric], output_uri_prefix="out").evaluate()
    check(result, "pairwise_rb_text_quality/pairwise_choice")


@form
def images_for_the_judge(sdk: Any) -> None:
    image = json.dumps({"contents": [{"parts": [{"file_data": {"mime_type": "image/png", "file_uri": "gs://b/i"}}]}]})
    metric = sdk.PredefinedRubricMetrics.Pairwise.MULTIMODAL_UNDERSTANDING
    dataset = answers(image=[image] * 2, baseline_model_response=["1", "2"])
    result = sdk.EvalTask(dataset=dataset, metrics=[metric]).evaluate()
    check(result, "pairwise_rb_multimodal_understanding/pairwise_choice")


@form
def images_for_rubrics_of_the_users(sdk: Any) -> None:
    image = json.dumps({"contents": [{"parts": [{"file_data": {"mime_type": "image/png", "file_uri": "gs://b/i"}}]}]})
    critique = sdk.PointwiseMetric(
        metric="gecko",
        metric_prompt_template="Answer questions: {rubrics} {image}",
        custom_output_config=sdk.CustomOutputConfig(return_raw_output=True, parsing_fn=parse_answers),
    )
    generation = sdk.RubricGenerationConfig(prompt_template="Write questions: {prompt}", parsing_fn=parse_questions)
    metric = sdk.RubricBasedMetric(generation_config=generation, critique_metric=critique)
    dataset = metric.generate_rubrics(pd.DataFrame({"prompt": ["one"], "image": [image]}))
    sdk.EvalTask(dataset=dataset, metrics=[metric]).evaluate(response_column_name="image")


@form
def translations(sdk: Any) -> None:
    metrics = ["bleu", sdk.Comet(version="COMET_22_SRC_REF"), sdk.MetricX(version="METRICX_24_SRC")]
    dataset = pd.DataFrame({"source": ["eins"], "response": ["one"], "reference": ["one"]})
    result = sdk.EvalTask(dataset=dataset, metrics=metrics, experiment="translation").evaluate()
    check(result, "bleu/score", "comet/score", "metricx/score")


@form
def judge_against_people(sdk: Any) -> None:
    metric = sdk.PointwiseMetric(metric="use", metric_prompt_template=QUESTION)
    rated = pd.DataFrame({"use/score": [1, 0, 0, 1, 1, 0], "use/human_rating": [1, 0, 1, 0, 1, 0]})
    found = sdk.evaluate_autorater(evaluate_autorater_input=rated, eval_metrics=[metric]).eval_result[0]
    assert found["metric"] == "use"
    assert round(found["accuracy_balanced"], 6) == round(2 / 3, 6)


@form
def output_folder_and_a_name_used_twice(sdk: Any) -> None:
    task = sdk.EvalTask(dataset=answers(reference=["a", "b"]), metrics=["exact_match"], output_uri_prefix="results")
    for _ in range(2):
        check(task.evaluate(output_file_name="scores.csv"), "exact_match/score")


@form
def dataset_in_a_file(sdk: Any) -> None:
    answers(reference=["uno", "x"]).to_json("rows.jsonl", orient="records", lines=True)
    check(sdk.EvalTask(dataset="rows.jsonl", metrics=["exact_match"]).evaluate(), "exact_match/score")


@form
def template_over_a_file(sdk: Any) -> None:
    articles().to_csv("rows.csv", index=False)
    result = sdk.EvalTask(dataset="rows.csv", metrics=["bleu"]).evaluate(
        model=str.upper, prompt_template="{instruction}: {context}"
    )
    check(result, "bleu/score")
    assert sorted(result.metrics_table["response"]) == ["SUM UP: LONG", "SUM UP: LONGER"]


@form
def prompt_templates_in_a_loop(sdk: Any) -> None:
    task = sdk.EvalTask(dataset=articles(), metrics=["rouge_l_sum", "bleu"], experiment="prompts")
    for i, text in enumerate(["{instruction} {context}", "{context}: {instruction}"]):
        template = sdk.PromptTemplate(text)
        assert template.variables == {"instruction", "context"}
        result = task.evaluate(model=str.upper, prompt_template=template, experiment_run_name=f"prompt-{i}")
        check(result, "bleu/score")
    assert str(sdk.PromptTemplate("{a} {b}").assemble(a="1")) == "1 {b}"


@form
def name_of_a_run_without_an_experiment(sdk: Any) -> None:
    task = sdk.EvalTask(dataset=answers(reference=["a", "b"]), metrics=["exact_match"])
    check(task.evaluate(experiment_run_name="global-experiment"), "exact_match/score")


@form
def metrics_of_the_sdk_itself(sdk: Any) -> None:
    from vertexai import evaluation as theirs
    from vertexai.evaluation.metrics import Rouge

    metrics = [
        theirs.PointwiseMetric(metric="use", metric_prompt_template=QUESTION),
        theirs.PairwiseMetric(metric="better", metric_prompt_template=PAIR),
        theirs.CustomMetric(name="half", metric_function=lambda row: {"half": 0.5}),
        Rouge(rouge_type="rouge1"),
    ]
    texts = {name: ["x"] * 2 for name in ("instruction", "context", "reference", "baseline_model_response")}
    result = sdk.EvalTask(dataset=answers(**texts), metrics=metrics).evaluate()
    names = ("use", "half", "rouge")
    check(result, "better/pairwise_choice", *(f"{name}/score" for name in names))


@form
def names_of_metrics(sdk: Any) -> None:
    metrics = [
        sdk.PointwiseMetric(metric="use", metric_prompt_template=QUESTION),
        sdk.Rouge(rouge_type="rouge1"),
        sdk.TrajectorySingleToolUse("x"),
        sdk.CustomMetric("half", lambda row: {"half": 0.5}),
        sdk.MetricPromptTemplateExamples.Pairwise.FLUENCY,
        "bleu",
    ]
    expected = ["use", "rouge", "trajectory_single_tool_use", "half", "pairwise_fluency", "bleu"]
    assert [str(metric) for metric in metrics] == expected
    assert [m.metric_name for m in metrics if not isinstance(m, str)] == expected[:-1]


@form
def undefined_statistics(sdk: Any) -> None:
    task = sdk.EvalTask(dataset=answers(reference=["a", "b"])[:1], metrics=["exact_match"])
    summary = task.evaluate().summary_metrics
    assert pd.isna(summary["exact_match/std"])
    assert f"{summary['exact_match/std']:.2f}" == "nan"


@form
def dataset_without_answers(sdk: Any) -> None:
    for columns in (["prompt", "reference"], ["prompt", "reference", "predicted_trajectory"]):
        dataset = answers(reference=["a", "b"], predicted_trajectory=[TRAJECTORY] * 2)[columns]
        with pytest.raises((KeyError, ValueError), match="response"):
            sdk.EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate()


@form
def columns_that_are_empty_or_infinite(sdk: Any) -> None:
    dataset = answers(reference=["uno", "x"], note=[None, None], weight=[float("inf"), float("-inf")])
    table = sdk.EvalTask(dataset=dataset, metrics=["exact_match"]).evaluate().metrics_table
    assert list(table["weight"]) == [float("inf"), float("-inf")]
    assert table["note"].isna().all()


@form
def parts_of_a_result(sdk: Any) -> None:
    result = sdk.EvalTask(dataset=answers(reference=["uno", "x"]), metrics=["exact_match"]).evaluate()
    assert isinstance(result, sdk.EvalResult)
    frame = pd.DataFrame.from_dict(result.summary_metrics, orient="index").T
    assert frame["exact_match/mean"][0] == 0.5
    assert not result.metrics_table.filter(["exact_match/score"]).empty
    assert not Path("metadata").exists()
