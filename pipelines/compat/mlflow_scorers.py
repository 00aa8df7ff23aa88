"""MLflow 3's built-in scorers as metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.formats.databricks import JUDGES
from .metric_configs import name_metric

BUILT_IN = {
    "Correctness": "correctness",
    "ExpectationsGuidelines": "guideline_adherence",
    "Guidelines": "global_guideline_adherence",
    "RelevanceToQuery": "relevance_to_query",
    "RetrievalGroundedness": "groundedness",
    "RetrievalRelevance": "chunk_relevance",
    "RetrievalSufficiency": "context_sufficiency",
    "Safety": "safety",
}
"""Built-in scorers of MLflow that a judge decides here: class -> judge. MLflow itself runs all others."""
_PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "gemini": "google", "google": "google"}
_EXAMPLE = 'judges={"default": {"type": "google", "model": "gemini-2.5-flash"}}'


def build_scorers(scorers: Sequence[Any], there: bool) -> list[Any]:
    """Builds the metric configurations of scorers.

    Args:
        scorers: Built-in scorers, functions, and metrics.
        there: Whether there is a judge model.

    Raises:
        ConfigError: A scorer needs a judge model and there is none, or it is no scorer.
    """
    return [_build(scorer, there, f"scorers.{i}") for i, scorer in enumerate(scorers)]


def find_judge_model(scorers: Sequence[Any]) -> dict[str, Any]:
    """Returns the judges section for the model that built-in scorers name; empty if they name none.

    Raises:
        ConfigError: They name several models, or one of a provider that no judge asks.
    """
    models = {model for s in scorers if _class_of(s) in BUILT_IN and (model := getattr(s, "model", None))}
    if not models:
        return {}
    if len(models) > 1:
        raise ConfigError(f"two models, {' and '.join(sorted(models)[:2])}", where="scorers", allowed=_EXAMPLE)
    provider, _, name = models.pop().partition(":/")
    if provider not in _PROVIDERS:
        found = f"a model of {provider!r}"
        raise ConfigError(found, where="scorers", allowed=f"{', '.join(_PROVIDERS)}, or {_EXAMPLE}")
    return {"default": {"type": _PROVIDERS[provider], "model": name}}


def _class_of(scorer: Any) -> str:
    """Returns the class of a built-in scorer, given as its object, its class or its name; "" for anything else."""
    if isinstance(scorer, str):
        return scorer
    kind = scorer if isinstance(scorer, type) else type(scorer)
    return kind.__name__ if kind.__module__.startswith("mlflow.genai.scorers") else ""


def _build(scorer: Any, there: bool, where: str) -> Any:
    kind = _class_of(scorer)
    if kind not in BUILT_IN:
        return name_metric(scorer)
    if not there:
        raise ConfigError(f"{kind} needs a judge model, and none is configured", where=where, allowed=_EXAMPLE)
    judge = JUDGES[BUILT_IN[kind]]
    name = getattr(scorer, "name", "") if not isinstance(scorer, str | type) else ""
    metric = {"metric": f"databricks/{judge.name}", "name": judge.name if name in ("", judge.scorer) else name}
    if kind != "Guidelines":
        return metric
    guidelines = getattr(scorer, "guidelines", None)
    if guidelines is None:
        raise ConfigError("Guidelines has no guidelines", where=where, allowed="Guidelines(guidelines=[...])")
    return {**metric, "guidelines": [guidelines] if isinstance(guidelines, str) else list(guidelines)}
