"""Metric objects of the Vertex AI SDK (vertexai.evaluation and vertexai.preview.evaluation) as evalbeam's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...schemas.errors import ConfigError
from ...transforms.judging.raw_output import CustomOutputConfig
from ...transforms.metrics.base import Metric
from ...transforms.metrics.custom import CustomMetric
from ...transforms.metrics.rubric import RubricGenerationConfig
from ...transforms.metrics.template import PairwiseMetric, PointwiseMetric
from ...transforms.metrics.text import Rouge
from ...transforms.metrics.trajectory import TrajectorySingleToolUse
from ...transforms.metrics.translation import Comet, MetricX
from .rubrics import RubricBasedMetric


def convert_sdk_metric(metric: Any) -> Metric | None:
    """Converts a metric object of the SDK; returns `None` for anything else.

    Raises:
        ConfigError: The SDK's metric has no counterpart.
    """
    kind = type(metric)
    if not kind.__module__.startswith(("vertexai.evaluation", "vertexai.preview.evaluation")):
        return None
    if kind.__name__ not in _CONVERTERS:
        allowed = ", ".join(_CONVERTERS)
        raise ConfigError(f"found the SDK's {kind.__name__}", where="metrics", allowed=allowed)
    return _CONVERTERS[kind.__name__](metric)


def _judged(metric: Any) -> dict[str, Any]:
    given = getattr(metric, "custom_output_config", None)
    output = None if given is None else CustomOutputConfig(given.return_raw_output, given.parsing_fn)
    return {
        "metric": metric.metric_name,
        "metric_prompt_template": metric.metric_prompt_template,
        "system_instruction": getattr(metric, "system_instruction", None),
        "autorater_config": getattr(metric, "autorater_config", None),
        "custom_output_config": output,
    }


def _rouge(metric: Any) -> Metric:
    return Rouge(
        rouge_type=metric.rouge_type,
        use_stemmer=bool(metric.use_stemmer),
        split_summaries=bool(metric.split_summaries),
    )


def _rubric_based(metric: Any) -> Metric:
    given = metric.generation_config
    config = RubricGenerationConfig(
        prompt_template=given.prompt_template, model=given.model, parsing_fn=given.parsing_fn
    )
    critique = convert_sdk_metric(metric.critique_metric)
    return RubricBasedMetric(generation_config=config, critique_metric=critique)


def _translation(made: type[Comet] | type[MetricX]) -> Callable[[Any], Metric]:
    def convert(metric: Any) -> Metric:
        named = {name: getattr(metric, name, None) for name in ("version", "source_language", "target_language")}
        return made(**{name: value for name, value in named.items() if value is not None})

    return convert


_CONVERTERS: Mapping[str, Callable[[Any], Metric]] = {
    "PointwiseMetric": lambda m: PointwiseMetric(**_judged(m)),
    "PairwiseMetric": lambda m: PairwiseMetric(**_judged(m), baseline_model=m.baseline_model),
    "CustomMetric": lambda m: CustomMetric(m.name, m.metric_function),
    "Rouge": _rouge,
    "TrajectorySingleToolUse": lambda m: TrajectorySingleToolUse(m.tool_name),
    "RubricBasedMetric": _rubric_based,
    "Comet": _translation(Comet),
    "MetricX": _translation(MetricX),
}
"""Converters by the name of the SDK's class."""
