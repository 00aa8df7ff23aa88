"""Prompt templates of users, in parts or as free text with `{variable}` placeholders, and their ratings.

    PointwiseMetricPromptTemplate(
        criteria={"Follows": "The answer follows from the tool calls."},
        rating_rubric={"1": "It follows.", "0": "It does not."},
        input_variables=["prompt", "predicted_trajectory"],
    )

Names and arguments are those of the Vertex AI SDK. Parts keep their order, so the prompt of a row is the same in every
run. The paragraphs before the first variable are the system message, the rest is the user message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from .prompts import Prompt, load_prompt, variables_of

Rubric = Mapping[str | int | float, str]
Numbers = tuple[int | float, ...]

PAIR = {
    "baseline_model_response": "response_a",
    "baseline_prediction": "response_a",
    "response": "response_b",
    "prediction": "response_b",
}
"""Neutral names for the blocks of two compared answers, so that the judge cannot tell which is the baseline."""
_HEADING = re.compile(r"^[\s#*]*(?:(?:rating|scoring)\s+)?(?:rubrics?|ratings?|scores?|scale)\s*:?[\s*:]*$", re.I)
_RATING = re.compile(r"^[\s>*•-]*?[\"'*(]{0,3}([-−–]?\d+(?:\.\d+)?)[\"'*)]{0,3}\s*(?:\([^)]*\)|[^:\d]{0,40}?)\s*[:=]")


@dataclass(frozen=True, kw_only=True)
class TemplateParts:
    """The parts of a template.

    Attributes:
        criteria: Names and descriptions of criteria.
        rating_rubric: Ratings and their descriptions; the ratings of pointwise metrics are numbers.
        input_variables: Columns that the judge sees besides the answer; a row must have them.
        instruction: The judge's task; default: a general one.
        metric_definition: Short definition of the metric.
        evaluation_steps: Names and descriptions of steps.
        few_shot_examples: Examples of judgements.
    """

    criteria: Mapping[str, str] = field(default_factory=dict)
    rating_rubric: Rubric = field(default_factory=dict)
    input_variables: Sequence[str] | None = None
    instruction: str | None = None
    metric_definition: str | None = None
    evaluation_steps: Mapping[str, str] | None = None
    few_shot_examples: Sequence[str] | None = None

    def text(self, default: str) -> str:
        """Builds the whole template.

        Args:
            default: Name of the prompt with the default instruction and the blocks of the answers.
        """
        prompt = load_prompt(default)
        shown = dict.fromkeys(self.input_variables or ())
        given = "\n\n".join(f"### {name}\n{{{name}}}" for name in shown if name not in variables_of(prompt.given))
        sections = {
            "# Instruction": self.instruction or prompt.told,
            "## Metric Definition": self.metric_definition,
            "## Criteria": _list_items(self.criteria),
            "## Rating Rubric": _list_items(self.rating_rubric),
            "## Evaluation Steps": _list_items(self.evaluation_steps or {}),
            "## Evaluation Examples": "\n\n".join(self.few_shot_examples or ()),
            "## User Inputs": given,
            "## AI-generated Response": prompt.given,
        }
        return "\n\n".join(f"{title}\n{text}" for title, text in sections.items() if text)


@dataclass(frozen=True, kw_only=True)
class _MetricPromptTemplate(TemplateParts):
    """Base of the two kinds of templates."""

    default: ClassVar[str]

    def __post_init__(self) -> None:
        for name in ("criteria", "rating_rubric"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty, allowed: names and their descriptions")

    @property
    def prompt_data(self) -> str:
        """The whole template as text."""
        return self.text(self.default)

    @property
    def variables(self) -> set[str]:
        """Names of the variables of the template."""
        return set(variables_of(self.prompt_data))

    def __str__(self) -> str:
        return self.prompt_data


@dataclass(frozen=True, kw_only=True)
class PointwiseMetricPromptTemplate(_MetricPromptTemplate):
    """A template that rates one answer; it always includes `{response}`."""

    default: ClassVar[str] = "template/pointwise"


@dataclass(frozen=True, kw_only=True)
class PairwiseMetricPromptTemplate(_MetricPromptTemplate):
    """A template that compares two answers: A is `{baseline_model_response}`, B is `{response}`."""

    default: ClassVar[str] = "template/pairwise"


def prompt_of(text: str, name: str, system: str | None = None, after: str = "") -> Prompt:
    """Splits a template into the system and user message of a prompt.

    Args:
        text: The template.
        name: Name of the metric.
        system: Text before the template's own system message.
        after: Text after the template's own system message.
    """
    paragraphs = re.split(r"\n[ \t]*\n", text.strip())
    first = next((i for i, paragraph in enumerate(paragraphs) if variables_of(paragraph)), len(paragraphs))
    told = [*filter(None, (system,)), *paragraphs[:first], *filter(None, (after,))]
    return Prompt(name, 1, "\n\n".join(told).strip(), "\n\n".join(paragraphs[first:]).strip())


def rename_variables(text: str, names: Mapping[str, str]) -> str:
    """Renames variables of a template."""
    pattern = "|".join(map(re.escape, names))
    return re.sub(rf"\{{({pattern})\}}", lambda match: f"{{{names[match[1]]}}}", text)


def parse_ratings(ratings: Sequence[str | int | float]) -> Numbers:
    """Parses ratings as sorted numbers; whole ones become int.

    Raises:
        ValueError: A rating is not a finite number, or there are fewer than two.
    """
    try:
        found = sorted({float(str(rating).strip().replace("−", "-").replace("–", "-")) for rating in ratings})
    except ValueError:
        shown = ", ".join(map(str, ratings))
        raise ValueError(f"rating_rubric has the ratings {shown}, allowed: numbers") from None
    if len(found) < 2 or not all(abs(number) < float("inf") for number in found):
        raise ValueError(f"rating_rubric has the ratings {found}, allowed: two or more finite numbers")
    return tuple(int(number) if number.is_integer() else number for number in found)


def find_ratings(text: str) -> Numbers | None:
    """Finds the ratings listed under a heading such as "Rating Rubric" or "Scores"; `None` if there are none."""
    found: list[str] = []
    listing = False
    for line in text.splitlines():
        if _HEADING.match(line):
            listing = True
        elif listing and (match := _RATING.match(line)):
            found.append(match[1])
        elif listing and found and (not line.strip() or line.lstrip().startswith("#")):
            break
    return parse_ratings(found) if len({*found}) > 1 else None


def _list_items(named: Mapping[str, str] | Rubric) -> str:
    return "\n".join(f"{name}: {text}" for name, text in named.items())
