"""The metrics of EvalTask as a configuration has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ...schemas.config.evaluation import MetricConfig
from ...schemas.errors import ConfigError
from ...transforms import registry
from ...transforms.judging.autorater import Autorater
from ...transforms.metrics._judged import JudgedMetric
from ...transforms.metrics.base import Metric
from ..run.parts import build_metric
from .sdk_objects import convert_sdk_metric

_AS_THEY_ARE = Autorater()


def convert_metric(metric: Any) -> Any:
    """Converts an object of the Vertex AI SDK to a metric; returns anything else unchanged."""
    return convert_sdk_metric(metric) or metric


def build_judged(metrics: Sequence[Any]) -> list[JudgedMetric]:
    """Builds the metrics of a configuration that judges score."""
    configs = [MetricConfig.model_validate(metric) for metric in metrics]
    built = [build_metric(config, f"metrics.{i}") for i, config in enumerate(configs)]
    return [metric for metric in built if isinstance(metric, JudgedMetric)]


def baseline_of(metrics: Sequence[Any]) -> Any:
    """Returns the baseline model of the pairwise metrics, or `None`.

    Raises:
        ConfigError: They have different ones.
    """
    models = [model for m in metrics if (model := getattr(m, "baseline_model", None)) is not None]
    if any(model is not models[0] and model != models[0] for model in models):
        raise ConfigError("two baseline models", where="metrics", allowed="the same baseline_model for all metrics")
    return models[0] if models else None


def name_metric(metric: Any, autorater: Autorater = _AS_THEY_ARE) -> Any:
    """Converts a metric to its form in a configuration; objects get the name that the SDK gives their columns.

    Args:
        metric: A name, a mapping, or an object.
        autorater: Judge options of metrics without their own.

    Raises:
        ConfigError: The object is not a metric.
    """
    asked = {key: v for key, v in (("samples", autorater.samples), ("flip", autorater.flip)) if v is not None}
    if isinstance(metric, str | Mapping):
        config = {"metric": metric} if isinstance(metric, str) else dict(metric)
        name = config.get("metric")
        if not isinstance(name, str) or ":" in name:
            return metric
        full = registry.full_name("metric", name, ("template",))
        config = {**_select_params(registry.find("metric", full, "metrics").factory, asked), "name": name, **config}
        return metric if full == name and len(config) == 2 else {**config, "metric": full}
    if not isinstance(metric, Metric) and not callable(metric):
        raise ConfigError(f"found {type(metric).__name__}", where="metrics", allowed="a name or a metric object")
    if isinstance(metric, JudgedMetric) and getattr(metric, "autorater_config", None) is None:
        metric = replace(metric, **_select_params(type(metric), asked))
    if isinstance(metric, Metric):
        name = metric.metric_name
        return {"metric": _without_baseline(metric), "name": name}
    return {"metric": metric, "name": getattr(metric, "name", "") or getattr(metric, "__name__", "")}


def _without_baseline(metric: Metric) -> Metric:
    """Removes the baseline model, which EvalTask calls itself."""
    if getattr(metric, "baseline_model", None) is None:
        return metric
    critique = getattr(metric, "critique_metric", None)
    if critique is not None:
        return replace(metric, critique_metric=replace(critique, baseline_model=None))  # type: ignore[type-var]
    return replace(metric, baseline_model=None)  # type: ignore[type-var]


def _select_params(factory: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the parameters that a judge metric has; none for other metrics."""
    if not (isinstance(factory, type) and issubclass(factory, JudgedMetric)):
        return {}
    return {key: v for key, v in given.items() if key in {f.name for f in fields(factory)}}
