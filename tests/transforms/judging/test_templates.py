"""Templates against those of the Vertex AI SDK: what it ships, and how it writes parts."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
from google.cloud.aiplatform_v1beta1.types import AutoraterConfig, GenerationConfig

from evalbeam import PairwiseMetric, PairwiseMetricPromptTemplate, PointwiseMetric, PointwiseMetricPromptTemplate
from evalbeam.transforms.judging.autorater import Autorater, autorater_of
from evalbeam.transforms.judging.prompts import variables_of
from evalbeam.transforms.judging.templates import find_ratings, parse_ratings, prompt_of
from evalbeam.transforms.metrics.template import NAMES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vertexai.evaluation.metrics import _default_templates as sdk_texts
    from vertexai.evaluation.metrics import metric_prompt_template as sdk
    from vertexai.evaluation.metrics import pairwise_metric, pointwise_metric

PARTS: dict[str, Any] = {
    "criteria": {"Follows": "It follows from the calls.", "Brief": "It is brief."},
    "rating_rubric": {"1": "Follows.", "0": "Does not."},
    "input_variables": ["prompt", "predicted_trajectory"],
    "instruction": "You are strict.",
    "metric_definition": "Whether it follows.",
    "evaluation_steps": {"Step 1": "Read.", "Step 2": "Rate."},
    "few_shot_examples": ["Example one.", "Example two."],
}
RANGES = {"safety": (0, 1), "groundedness": (0, 1), "multi_turn_safety": (0, 1), "verbosity": (-2, 2)}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (PointwiseMetricPromptTemplate, sdk.PointwiseMetricPromptTemplate),
        (PairwiseMetricPromptTemplate, sdk.PairwiseMetricPromptTemplate),
        (PointwiseMetric, pointwise_metric.PointwiseMetric),
        (PairwiseMetric, pairwise_metric.PairwiseMetric),
    ],
)
def test_arguments_are_those_of_the_sdk(ours: Any, theirs: Any) -> None:
    wanted = {name for name in inspect.signature(theirs.__init__).parameters if name != "self"}
    assert wanted <= set(inspect.signature(ours).parameters)


@pytest.mark.parametrize("kind", ["Pointwise", "Pairwise"])
def test_parts_make_a_template_with_the_sections_and_variables_of_the_sdk(kind: str) -> None:
    name = f"{kind}MetricPromptTemplate"
    ours = {"Pointwise": PointwiseMetricPromptTemplate, "Pairwise": PairwiseMetricPromptTemplate}[kind](**PARTS)
    theirs = getattr(sdk, name)(**PARTS)
    assert ours.variables == set(variables_of(str(theirs)))
    assert str(ours) == ours.prompt_data
    for text in ("You are strict.", "Whether it follows.", "Brief: It is brief.", "0: Does not.", "Example two."):
        assert text in str(ours)
        assert text in str(theirs)
    places = [str(ours).index(f"{{{v}}}") for v in ("prompt", "predicted_trajectory", "response")]
    assert places == sorted(places)


def test_the_row_stands_after_all_that_is_constant() -> None:
    metric = PointwiseMetric(metric="m", metric_prompt_template=PointwiseMetricPromptTemplate(**PARTS))
    (prompt,) = metric.prompts
    assert variables_of(prompt.told) == ()
    assert prompt.told.endswith("Example two.")
    assert prompt.given.startswith("## User Inputs\n### prompt\n{prompt}")
    assert metric.inputs == ("prompt", "predicted_trajectory", "response")


def test_a_variable_in_a_criterion_is_a_variable() -> None:
    template = PointwiseMetricPromptTemplate(
        criteria={"Like": "As {reference}."}, rating_rubric={"0": "no", "1": "yes"}
    )
    prompt = prompt_of(str(template), "m")
    assert prompt.variables == ("reference", "response")
    assert "## Criteria" in prompt.given


@pytest.mark.parametrize("name", NAMES)
def test_ratings_are_found_in_the_texts_the_sdk_ships(name: str) -> None:
    text = getattr(sdk_texts, f"{name.upper()}_PROMPT_TEMPLATE")
    theirs = PointwiseMetric(metric="own", metric_prompt_template=text)
    ours = PointwiseMetric(metric=name)
    assert theirs.range == ours.range == RANGES.get(name, (1, 5))
    assert set(ours.inputs) == set(theirs.inputs)
    pair = getattr(sdk_texts, f"PAIRWISE_{name.upper()}_PROMPT_TEMPLATE")
    assert set(PairwiseMetric(metric="own", metric_prompt_template=pair).inputs) == {
        *PairwiseMetric(metric=f"pairwise_{name}").inputs
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Scores:\n1: bad\n2: good", (1, 2)),
        ("## Rating Rubric\n- **5** (best): yes\n- **1** (worst): no\n\n3: not a rating any more", (1, 5)),
        ("Scale\n-1: less\n0: same\n0.5: more", (-1, 0, 0.5)),
        ("**Ratings**\n\n* 0: no\n* 1: yes\n# Next\n7: seven", (0, 1)),
        ("In 2024: 7 things\n1: one\n2: two", None),
        ("Scores:\n3: only one", None),
    ],
)
def test_ratings_in_free_text(text: str, found: Any) -> None:
    assert find_ratings(text) == found


def test_what_is_no_rating_is_refused() -> None:
    with pytest.raises(ValueError, match="ratings good, bad, allowed: numbers"):
        parse_ratings(["good", "bad"])
    with pytest.raises(ValueError, match="two or more finite numbers"):
        parse_ratings(["1", "inf"])
    with pytest.raises(ValueError, match="criteria is empty"):
        PointwiseMetricPromptTemplate(criteria={}, rating_rubric={"1": "x"})


def test_an_autorater_of_the_sdk() -> None:
    model = "projects/p/locations/europe-west4/publishers/google/models/gemini-2.5-flash"
    generation = GenerationConfig(temperature=0.5)
    found = autorater_of(AutoraterConfig(sampling_count=3, autorater_model=model, generation_config=generation))
    assert found == Autorater(3, None, model, 0.5, None)
    assert found.section == {
        "type": "google", "model": "gemini-2.5-flash", "project": "p", "location": "europe-west4", "temperature": 0.5,
    }  # fmt: skip
    assert autorater_of({"flip_enabled": False}) == Autorater(flip=False)
    assert autorater_of({"sampling_count": "3", "flip_enabled": "True"}) == Autorater(3, True)  # as JSON may write it
    assert autorater_of(AutoraterConfig()) == autorater_of(None) == Autorater()


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"sampling_count": 33}, "sampling_count is 33, allowed: 1 to 32"),
        ({"sampling_count": True}, "sampling_count is True, allowed: 1 to 32"),
        ({"sampling_count": "many"}, "sampling_count is many, allowed: 1 to 32"),
        ({"flip_enabled": "maybe"}, "flip_enabled is maybe, allowed: true or false"),
        ({"generation_config": "hot"}, "generation_config is 'hot', allowed: a GenerationConfig or a mapping"),
        ({"samples": 3}, "key 'samples', allowed: sampling_count"),
        (object(), "autorater_config is object"),
    ],
)
def test_a_wrong_autorater_is_refused(config: Any, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        autorater_of(config)
    with pytest.raises(ValueError, match="a model's name, or projects"):
        _ = Autorater(model="projects/p/locations/l/endpoints/7").section
