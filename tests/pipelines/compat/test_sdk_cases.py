"""The cases that the Vertex AI SDK tests of its own EvalTask (tests/unit/vertexai/test_evaluation.py), in other words.

A test, or a row of `REFUSED`, has the name that the case has there. Cases of templates, autoraters and rubrics that
differ only in a part are one test, named by what they have in common. `ELSEWHERE` names the files with the tests of
other cases, and `LEFT_OUT` says why a case has none.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from evaluation_service import Service
from model_server import Asked, ModelServer, Said

import evalbeam as sdk
from evalbeam import ConfigError, EvalTask

Pointwise = sdk.MetricPromptTemplateExamples.Pointwise
Pairwise = sdk.MetricPromptTemplateExamples.Pairwise
STEPS = [[{"kwargs": {"tool": "lamp", "tool_input": {}}}, "on"]]
MADE = [{"tool_name": "lamp", "tool_input": {}}]
PARTS: dict[str, Any] = {
    "metric_definition": "How well it reads.",
    "criteria": {"order": "Ideas follow each other."},
    "rating_rubric": {"5": "well", "4": "fairly", "1": "badly"},
    "evaluation_steps": {"1": "Read it."},
}
AUTORATER = sdk.AutoraterConfig(autorater_model="gemini-2.5-pro", sampling_count=2, flip_enabled=True)


class Model:
    """A fake of the SDK's GenerativeModel; it counts its calls."""

    def __init__(self, said: str = "said") -> None:
        self._model_name, self.said, self.calls = "publishers/google/model/gemini", said, 0

    def generate_content(self, contents: Any, **_: Any) -> Any:
        self.calls += 1
        return SimpleNamespace(text=self.said)


class Queryable:
    """A fake of a reasoning engine."""

    def query(self, *, input: str) -> dict[str, Any]:
        return {"output": f"said {input}", "intermediate_steps": STEPS}


def columns(*names: str, **more: Any) -> pd.DataFrame:
    """Two rows, with texts that name their column and row."""
    return pd.DataFrame({**{name: [f"{name} one", f"{name} two"] for name in names}, **more})


ELSEWHERE = {
    "load_dataset_from_dataframe": "tests/pipelines/compat/test_eval_task.py",
    "load_dataset_from_gcs_jsonl": "tests/transforms/readers/test_jsonl.py",
    "load_dataset_from_gcs_csv": "tests/transforms/readers/test_csv.py",
    "load_dataset_from_bigquery": "tests/transforms/readers/test_bigquery.py",
    "initialize_metric_column_mapping": "tests/pipelines/compat/test_eval_task.py",
    "upload_results": "tests/pipelines/compat/test_eval_task.py",
    "upload_results_with_default_output_file_name": "tests/pipelines/compat/test_eval_task.py",
}
"""Files with the tests of further cases."""
LEFT_OUT = {
    "create_evaluation_service_client": "no evaluation service is called",
    "initialization": "a class of the SDK: its rate limiter",
    "admit": "a class of the SDK: its rate limiter",
    "sleep_and_advance": "a class of the SDK: its rate limiter",
    "thread_safety": "a class of the SDK: its rate limiter",
    "eval_result_experiment_run_logging": "no experiment service is called; the result's metadata has the name",
    "evaluate_experiment_name_already_exists": "no experiment service is called",
    "generate_responses_from_gemini_model_with_multimodal_dataset": "prompts are texts",
}
"""Cases without a test, and why."""
EVERY = ("prompt", "response", "reference", "context", "instruction", "source")
UNANSWERED = ("prompt", "reference", "context", "instruction")


def judged(asked: Asked) -> Said:
    """What the judge says of the first and the second row: 5 and 4, or the other answer and this one."""
    first = " one" in asked.user
    if asked.schema is None:
        return Said("verbatim")
    if "choice" in asked.schema["properties"]:
        return Said(json.dumps({"explanation": "because", "choice": "A" if first else "B"}))
    return Said(json.dumps({"explanation": "because", "score": 5 if first else 4}))


def run(metrics: list[Any], dataset: pd.DataFrame, /, **task: Any) -> sdk.EvalResult:
    """Evaluates recorded answers."""
    return EvalTask(dataset=dataset, metrics=metrics, **task).evaluate()


def expect_means(result: sdk.EvalResult, name: str) -> None:
    """The means, scores, explanations of the judge above; rows keep their columns."""
    summary, table = result.summary_metrics, result.metrics_table
    assert (summary["row_count"], summary[f"{name}/mean"]) == (2, 4.5)
    assert summary[f"{name}/std"] == pytest.approx(0.5**0.5)
    assert list(table[f"{name}/score"]) == [5, 4]
    assert list(table[f"{name}/explanation"]) == ["because"] * 2


def models_asked(gemini: ModelServer) -> dict[str, int]:
    """How often each model was asked."""
    names = [asked.model for asked in gemini.asked]
    return {name: names.count(name) for name in names}


@pytest.fixture(autouse=True)
def judge(gemini: ModelServer) -> ModelServer:
    """The judge of this file, where no test has another one."""
    gemini.said = judged
    return gemini


def test_cases_of_other_files(root: Path) -> None:
    assert all((root / path).is_file() for path in ELSEWHERE.values())
    assert not set(ELSEWHERE) & set(LEFT_OUT)


def test_create_eval_task() -> None:
    dataset, metrics = columns(*EVERY), ["exact_match", Pointwise.FLUENCY]
    task = EvalTask(dataset=dataset, metrics=metrics, experiment="mine")
    assert task.dataset is dataset
    assert (task.metrics, task.experiment) == (metrics, "mine")


def test_compute_exact_match_metric() -> None:
    dataset = pd.DataFrame({"response": ["same", "this"], "reference": ["same", "that"]})
    result = run(["exact_match"], dataset)
    summary, table = result.summary_metrics, result.metrics_table
    assert (summary["row_count"], summary["exact_match/mean"]) == (2, 0.5)
    assert summary["exact_match/std"] == pytest.approx(0.5**0.5)
    assert list(table["exact_match/score"]) == [1.0, 0.0]
    assert table[["response", "reference"]].equals(dataset.astype(table.dtypes[["response", "reference"]]))


def test_compute_pointwise_metrics() -> None:
    template = sdk.PointwiseMetricPromptTemplate(**PARTS)
    dataset = columns(*EVERY)
    result = run([sdk.PointwiseMetric(metric="mine", metric_prompt_template=template)], dataset)
    expect_means(result, "mine")
    assert all(list(result.metrics_table[name]) == list(dataset[name]) for name in EVERY)


def test_compute_pointwise_metrics_free_string(judge: ModelServer) -> None:
    metric = sdk.PointwiseMetric(metric="free", metric_prompt_template="abc: {abc}")
    expect_means(run([metric], columns(*EVERY), metric_column_mapping={"abc": "prompt"}), "free")
    assert sorted("prompt one" in asked.user for asked in judge.asked) == [False, True]


def test_compute_pointwise_metrics_metric_prompt_template_example() -> None:
    task = EvalTask(dataset=columns(*UNANSWERED), metrics=[Pointwise.SUMMARIZATION_QUALITY])
    result = task.evaluate(model=Model(), prompt_template="{instruction} then {context}")
    expect_means(result, "summarization_quality")
    assert list(result.metrics_table["response"]) == ["said"] * 2
    assert list(result.metrics_table["prompt"]) == [f"instruction {n} then context {n}" for n in ("one", "two")]


def test_compute_pointwise_metrics_without_model_inference() -> None:
    expect_means(run([Pointwise.SUMMARIZATION_QUALITY], columns(*EVERY)), "summarization_quality")


def test_compute_model_based_translation_metrics_without_model_inference(service: Service) -> None:
    metrics = [
        sdk.Comet(version="COMET_22_SRC_REF", source_language="en", target_language="zh"),
        sdk.MetricX(version="METRICX_24_SRC", source_language="en", target_language="zh"),
    ]
    result = run(metrics, columns(*EVERY))
    for name in ("comet", "metricx"):
        assert list(result.metrics_table[f"{name}/score"]) == [service.score] * 2
        assert result.summary_metrics[f"{name}/mean"] == service.score
    assert len(service.asked) == 4


def test_compute_automatic_metrics_with_custom_metric_spec() -> None:
    metric = sdk.Rouge(rouge_type="rougeLsum", use_stemmer=True, split_summaries=True)
    dataset = columns("prompt", reference=["said", "other"])
    result = EvalTask(dataset=dataset, metrics=[metric]).evaluate(model=Model())
    assert list(result.metrics_table["rouge/score"]) == [1.0, 0.0]
    assert result.summary_metrics["rouge/mean"] == 0.5


def expect_choices(result: sdk.EvalResult, name: str) -> None:
    """The choices of the judge above, and the rates of winning."""
    table, summary = result.metrics_table, result.summary_metrics
    assert list(table[f"{name}/pairwise_choice"]) == ["BASELINE", "CANDIDATE"]
    assert list(table[f"{name}/explanation"]) == ["because"] * 2
    assert summary[f"{name}/candidate_model_win_rate"] == summary[f"{name}/baseline_model_win_rate"] == 0.5


def pair(model: Any = None, name: str = "mine") -> sdk.PairwiseMetric:
    """A pairwise metric of the user's."""
    template = "{prompt}: A {baseline_model_response} or B {response}?"
    return sdk.PairwiseMetric(metric=name, metric_prompt_template=template, baseline_model=model)


def test_compute_pairwise_metrics() -> None:
    task = EvalTask(dataset=columns(*UNANSWERED), metrics=[pair(Model("old"))])
    result = task.evaluate(model=Model("new"), prompt_template="{instruction} then {context}")
    expect_choices(result, "mine")
    assert list(result.metrics_table["baseline_model_response"]) == ["old"] * 2


def test_compute_pairwise_metrics_metric_prompt_template_example() -> None:
    dataset = columns(*UNANSWERED, "baseline_model_response")
    task = EvalTask(dataset=dataset, metrics=[Pairwise.SUMMARIZATION_QUALITY])
    expect_choices(task.evaluate(model=Model(), prompt_template="{context}"), "pairwise_summarization_quality")


def test_compute_pairwise_metrics_without_model_inference() -> None:
    dataset = columns(*EVERY, "baseline_model_response")
    expect_choices(run([Pairwise.SUMMARIZATION_QUALITY], dataset), "pairwise_summarization_quality")


def test_compute_multiple_metrics() -> None:
    dataset = columns("prompt", "context", "instruction", reference=["said", "other"])
    task = EvalTask(dataset=dataset, metrics=["exact_match", Pointwise.SUMMARIZATION_QUALITY, pair(Model())])
    result = task.evaluate(model=Model(), prompt_template="{instruction} then {context}")
    expect_choices(result, "mine")
    expect_means(result, "summarization_quality")
    assert list(result.metrics_table["exact_match/score"]) == [1.0, 0.0]


def test_rubric_based_instruction_following_metric(judge: ModelServer) -> None:
    judge.said = rubrics_and_verdicts
    name = "rubric_based_instruction_following"
    result = run([name], columns("prompt", "response"))
    assert list(result.metrics_table[f"{name}/score"]) == [0.5, 0.5]
    verdicts = [{"rubric": "It is short.", "verdict": True}, {"rubric": "It is kind.", "verdict": False}]
    assert [json_of(cell) for cell in result.metrics_table[f"{name}/per_rubric_result"]] == [verdicts] * 2


def rubrics_and_verdicts(asked: Asked) -> Said:
    """Writes two properties, of which the first holds."""
    assert asked.schema is not None
    [(key, shape)] = asked.schema["properties"].items()
    if shape["items"]["type"] == "string":
        return Said(json.dumps({key: ["It is short.", "It is kind."]}))
    values = {"string": "because", "integer": 0, "boolean": True}
    verdict = {name: values[one["type"]] for name, one in shape["items"]["properties"].items()}
    truth = next(name for name, one in shape["items"]["properties"].items() if one["type"] == "boolean")
    return Said(json.dumps({key: [{**verdict, "number": i + 1, truth: i == 0} for i in range(2)]}))


def json_of(cell: Any) -> Any:
    return json.loads(cell) if isinstance(cell, str) else cell


RAW = sdk.CustomOutputConfig(return_raw_output=True)


def test_compute_pointwise_metrics_with_raw_output() -> None:
    template = sdk.PointwiseMetricPromptTemplate(**PARTS)
    metric = sdk.PointwiseMetric(metric="mine", metric_prompt_template=template, custom_output_config=RAW)
    result = run([metric], columns(*EVERY), autorater_config=sdk.AutoraterConfig(sampling_count=2))
    assert [json_of(cell) for cell in result.metrics_table["mine/raw_output"]] == [["verbatim"] * 2] * 2


def test_compute_pairwise_metrics_with_raw_output() -> None:
    template = "{prompt}: A {baseline_model_response} or B {response}?"
    metric = sdk.PairwiseMetric(metric="mine", metric_prompt_template=template, custom_output_config=RAW)
    dataset = columns("prompt", "response", "baseline_model_response")
    with pytest.warns(UserWarning, match="no row was scored"):  # a text alone is no choice
        result = run([metric], dataset, autorater_config=sdk.AutoraterConfig(sampling_count=2))
    assert [json_of(cell) for cell in result.metrics_table["mine/raw_output"]] == [["verbatim"] * 2] * 2


WRITTEN = '```json{"questions": ["short?", "kind?"]}```'


def rubric(model: Any, **config: Any) -> sdk.RubricBasedMetric:
    """A rubric metric whose properties a model writes."""
    config = {"prompt_template": "Write: {prompt}", "model": model, **config}
    return sdk.RubricBasedMetric(
        generation_config=sdk.RubricGenerationConfig(**config),
        critique_metric=sdk.PointwiseMetric(metric="critique", metric_prompt_template="{rubrics}? {response}"),
    )


def test_compute_rubric_based_metric(judge: ModelServer) -> None:
    """There a column has the rubrics; here only `generate_rubrics` adds one."""
    metric = sdk.RubricBasedMetric(
        generation_config=sdk.RubricGenerationConfig(prompt_template="Write: {prompt}", model=Model(WRITTEN)),
        critique_metric=sdk.PointwiseMetric(
            metric="critique", metric_prompt_template="{rubrics}? {response}", custom_output_config=RAW
        ),
    )
    table = run([metric], columns("prompt", "response", "context")).metrics_table
    assert all("short?" in asked.user and "kind?" in asked.user for asked in judge.asked)
    assert [json_of(cell) for cell in table["critique/raw_output"]] == [["verbatim"]] * 2


def agent_rows() -> pd.DataFrame:
    return columns("prompt", reference_trajectory=[MADE, MADE * 2])


def test_runnable_response_eval_with_runnable_inference() -> None:
    task = EvalTask(dataset=agent_rows(), metrics=[Pointwise.COHERENCE])
    result = task.evaluate(runnable=Queryable(), prompt_template="Please: {prompt}")
    expect_means(result, "coherence")
    assert list(result.metrics_table["response"]) == ["said Please: prompt one", "said Please: prompt two"]
    assert {"latency_in_seconds", "failure", "predicted_trajectory"} <= set(result.metrics_table)


def test_runnable_trajectory_eval_with_runnable_inference() -> None:
    result = EvalTask(dataset=agent_rows(), metrics=["trajectory_exact_match"]).evaluate(runnable=Queryable())
    assert list(result.metrics_table["trajectory_exact_match/score"]) == [1.0, 0.0]
    assert result.summary_metrics["trajectory_exact_match/mean"] == 0.5


def own(kind: type, name: str, **more: Any) -> Any:
    template = sdk.MetricPromptTemplateExamples.get_prompt_template(name)
    return kind(metric=name, metric_prompt_template=template, **more)


JUDGED = columns("prompt", "response", "baseline_model_response", "context", "instruction", "reference")


@pytest.mark.parametrize("metric", [Pointwise.SUMMARIZATION_QUALITY, Pairwise.SUMMARIZATION_QUALITY])
def test_autorater_request_config_enabled(metric: Any, judge: ModelServer) -> None:
    run([metric], JUDGED, autorater_config=AUTORATER)
    assert models_asked(judge) == {"gemini-2.5-pro": 4}


@pytest.mark.parametrize(
    ("kind", "name"),
    [(sdk.PointwiseMetric, "summarization_quality"), (sdk.PairwiseMetric, "pairwise_summarization_quality")],
)
def test_autorater_from_metric(kind: type, name: str, judge: ModelServer) -> None:
    run([own(kind, name, autorater_config=AUTORATER)], JUDGED)
    assert models_asked(judge) == {"gemini-2.5-pro": 4}


def test_pointwise_autorater_from_metric_override(judge: ModelServer) -> None:
    metric = own(sdk.PointwiseMetric, "summarization_quality", autorater_config=AUTORATER)
    other = sdk.AutoraterConfig(autorater_model="gemini-2.0-flash", sampling_count=5, flip_enabled=False)
    run([metric], JUDGED, autorater_config=other)
    assert models_asked(judge) == {"gemini-2.5-pro": 4}


def test_pairwise_autorater_request_config_enabled(judge: ModelServer) -> None:
    mapping = {"baseline_model_response": "reference", "response": "response"}
    dataset = JUDGED.drop(columns="baseline_model_response")
    run([Pairwise.SUMMARIZATION_QUALITY], dataset, autorater_config=AUTORATER, metric_column_mapping=mapping)
    assert models_asked(judge) == {"gemini-2.5-pro": 4}
    assert all("reference" in asked.user for asked in judge.asked)


@pytest.mark.parametrize("count", [-1, 33])
def test_pairwise_invalid_sampling_count(count: int) -> None:
    with pytest.raises(ValueError, match="sampling_count"):
        run([Pairwise.SUMMARIZATION_QUALITY], JUDGED, autorater_config=sdk.AutoraterConfig(sampling_count=count))


ONLY_PROMPTS, ONLY_ANSWERS = columns("prompt"), columns("response")
TEMPLATE = sdk.PointwiseMetric(metric="mine", metric_prompt_template="{prompt} {response}")
FLIPPED = {"autorater_config": sdk.AutoraterConfig(flip_enabled=True)}
UNPAIRED = columns("prompt", "response", "context", "instruction")
COMET = sdk.Comet(version="COMET_22_SRC_REF")
REFUSED: dict[str, tuple[list[Any], pd.DataFrame, dict[str, Any], dict[str, Any], str]] = {
    "evaluate_empty_metrics": ([], columns(*EVERY), {}, {}, "metrics"),
    "evaluate_invalid_metrics": (["invalid_metric"], columns(*EVERY), {}, {}, "no metric named 'invalid_metric'"),
    "evaluate_duplicate_string_metric": (["exact_match"] * 2, columns(*EVERY), {}, {}, "exact_match"),
    "evaluate_duplicate_metric_instances": (
        [Pointwise.SUMMARIZATION_QUALITY] * 2, columns(*EVERY), {}, {}, "summarization_quality"
    ),
    "evaluate_response_column_and_model_provided": ([TEMPLATE], columns(*EVERY), {}, {"model": Model()}, "response"),
    "evaluate_invalid_model_and_dataset_input": (
        ["exact_match"], columns(*EVERY), {}, {"model": "gemini-2.5-pro"}, "response"
    ),
    "evaluate_baseline_response_column_and_baseline_model_provided": (
        [pair(Model())], columns("prompt", "baseline_model_response"), {}, {"model": Model()}, "baseline_model_response"
    ),
    "evaluate_response_column_and_model_not_provided": ([TEMPLATE], ONLY_PROMPTS, {}, {}, "'mine'.*'response'"),
    "evaluate_baseline_model_response_column_not_provided": (
        [pair()], columns("prompt", "response"), {}, {}, "'mine'.*'baseline_model_response'"
    ),
    "evaluate_response_column_not_provided": (["exact_match"], ONLY_PROMPTS, {}, {}, "'response'.*columns are prompt"),
    "evaluate_reference_column_not_provided": (
        ["exact_match"], ONLY_ANSWERS, {}, {}, "'reference'.*columns are response"
    ),
    "evaluate_reference_or_source_column_not_provided": ([COMET], ONLY_ANSWERS, {}, {}, "'source'.*are response"),
    "evaluate_invalid_prompt_template_variables": (
        ["exact_match"], ONLY_PROMPTS, {}, {"model": str.upper, "prompt_template": "{other}"}, "'other'.*has prompt"
    ),
    "evaluate_pairwise_metrics_with_multiple_baseline_models": (
        [pair(Model(), "a"), pair(Model(), "b")], columns("prompt"), {}, {"model": Model()}, "two baseline models"
    ),
    "pairwise_flipping_missing_baseline_model_response_column": (
        [Pairwise.SUMMARIZATION_QUALITY], UNPAIRED, FLIPPED, {}, "baseline_model_response"
    ),
    "pairwise_flipping_incorrect_baseline_model_response_mapping": (
        [Pairwise.SUMMARIZATION_QUALITY], UNPAIRED,
        {**FLIPPED, "metric_column_mapping": {"baseline_model_response": "nowhere"}}, {}, "baseline_model_response",
    ),
    "unmatched_metric_column_mapping": (
        [sdk.PointwiseMetric(metric="free", metric_prompt_template="abc: {abc}")], columns(*EVERY), {}, {}, "'abc'"
    ),
}  # fmt: skip
"""Cases that must be refused: metrics, dataset, further arguments of the task and of its call, what is said."""


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, service: Service) -> None:
    metrics, dataset, of_task, of_call, said = REFUSED[case]
    with pytest.raises(ValueError, match=said) as refused:
        EvalTask(dataset=dataset, metrics=metrics, **of_task).evaluate(**of_call)
    assert isinstance(refused.value, ConfigError)


def test_evaluate_baseline_model_provided_but_no_baseline_response_column() -> None:
    result = EvalTask(dataset=columns(*UNANSWERED), metrics=[pair(Model())]).evaluate(model=Model())
    assert result.summary_metrics["row_count"] == 2


def test_load_dataset_from_dict() -> None:
    result = EvalTask(dataset={"response": ["a", "b"], "reference": ["a", "c"]}, metrics=["exact_match"]).evaluate()
    assert list(result.metrics_table["exact_match/score"]) == [1.0, 0.0]


def test_validate_metrics_multiple_rubric_based_metrics(judge: ModelServer) -> None:
    """More than one is refused there; here both are judged."""
    judge.said = rubrics_and_verdicts
    metrics = [
        sdk.PredefinedRubricMetrics.Pointwise.TEXT_QUALITY,
        sdk.PredefinedRubricMetrics.Pointwise.INSTRUCTION_FOLLOWING,
    ]
    table = run(metrics, columns("prompt", "response")).metrics_table
    for metric in metrics:
        assert list(table[f"{metric}/score"]) == [0.5, 0.5]


def test_generate_responses_from_gemini_model() -> None:
    model = Model()
    result = EvalTask(dataset=columns(*UNANSWERED), metrics=["bleu"]).evaluate(model=model)
    assert list(result.metrics_table["response"]) == ["said"] * 2
    assert model.calls == 2


def test_prompt_template() -> None:
    """init, get_variables, format, partial_format, str, repr of a template."""
    template = sdk.PromptTemplate("Dear {name}, it is {day}.")
    assert template.template == str(template) == "Dear {name}, it is {day}."
    assert template.variables == {"name", "day"}
    assert repr(template) == "PromptTemplate('Dear {name}, it is {day}.')"
    part = template.assemble(name="Ada")
    assert isinstance(part, sdk.PromptTemplate)
    assert (str(part), part.variables) == ("Dear Ada, it is {day}.", {"day"})
    assert str(part.assemble(day="Monday")) == "Dear Ada, it is Monday."


def test_format_missing_variable() -> None:
    template = sdk.PromptTemplate("Dear {name}!")
    assert str(template.assemble()) == "Dear {name}!"
    assert template.variables == {"name"}


def test_complex_prompt_template_variables() -> None:
    text = 'as JSON:\n{\n "a": [x or y],\n "b":\n}\n{var_1} {var2} {_v3} {\n  v5\n} {V_6} {7v} {{v9}}'
    assert sdk.PromptTemplate(text).variables == {"var_1", "var2", "_v3", "V_6", "v9"}


@pytest.mark.parametrize("pairwise", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_metric_prompt_template(pairwise: bool, whole: bool) -> None:
    """The parts of a template in their order, with every part or only those that must be given."""
    kind = sdk.PairwiseMetricPromptTemplate if pairwise else sdk.PointwiseMetricPromptTemplate
    ratings = {"B": "better", "A": "worse"} if pairwise else {"1": "good", "0": "bad"}
    more: dict[str, Any] = {
        "input_variables": ["country"],
        "instruction": "Be fair.",
        "metric_definition": "What it is.",
        "evaluation_steps": {"first": "start", "then": "finish"},
        "few_shot_examples": ["Q: hi A: hello"],
    }
    template = kind(criteria={"sense": "It makes sense."}, rating_rubric=ratings, **(more if whole else {}))
    text = str(template)
    wanted = ["## Criteria\nsense: It makes sense.", "## Rating Rubric", *(["## Evaluation Steps"] if whole else [])]
    wanted += (
        ["### Response A\n{baseline_model_response}", "### Response B\n{response}"] if pairwise else ["{response}"]
    )
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    lines = [f"{key}: {value}" for key, value in ratings.items()]  # as given; the SDK sorts them
    assert "\n".join(lines) in text
    given = ["Be fair.", "What it is.", "first: start\nthen: finish", "Q: hi A: hello", "### country\n{country}"]
    assert all((part in text) is whole for part in given)


def test_rubric_generation() -> None:
    """It succeeds with the parser that is the default; a dataset with rubrics is left as it is."""
    model = Model(WRITTEN)
    written = rubric(model).generate_rubrics(columns("prompt", "response"))
    assert list(written["rubrics"]) == [["short?", "kind?"]] * 2
    assert model.calls == 2
    with pytest.warns(UserWarning, match="rubrics already"):
        assert rubric(model).generate_rubrics(written).equals(written)
    assert model.calls == 2


def test_rubric_generation_parsing_str() -> None:
    written = rubric(Model("short? kind?"), parsing_fn=str.split).generate_rubrics(columns("prompt"))
    assert list(written["rubrics"]) == [["short?", "kind?"]] * 2


def test_rubric_generation_parsing_additional_fields() -> None:
    said = '```json{"questions": ["short?"], "desc": "a text"}```'
    written = rubric(Model(said)).generate_rubrics(columns("prompt"))
    assert list(written["rubrics"]) == [["short?"]] * 2
    assert list(written["desc"]) == ["a text"] * 2


def test_default_rubrics_parser_with_invalid_json() -> None:
    """There the rubrics are an empty text; here there are none, and a warning says why."""
    with pytest.warns(UserWarning, match="row . has no rubrics: the writer's text has no JSON object"):
        written = rubric(Model('```json{["questions": ["short?"]]}```')).generate_rubrics(columns("prompt"))
    assert list(written["rubrics"]) == [None, None]


def test_evaluate_invalid_experiment_run_name() -> None:
    """Refused there; here a run may have a name without an experiment, as notebooks set it for the whole session."""
    with pytest.warns(UserWarning, match="stored only in the result's metadata"):
        result = EvalTask(dataset=columns(*EVERY), metrics=["bleu"]).evaluate(experiment_run_name="run")
    assert result.metadata == {"experiment_run": "run"}
