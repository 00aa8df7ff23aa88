"""MLflow 3's built-in scorers as metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.formats.databricks import JUDGES
from ...schemas.json import Json
from ...schemas.values import json_or_text
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


def add_sessions(data: Any) -> Any:
    """Adds a column `session` to rows in memory: all traces of a session, in the row of the first, in order of time.

    The session of a trace is its metadata `mlflow.trace.session`, as in MLflow.
    """
    rows = data.to_dict("records") if hasattr(data, "to_dict") else data
    if not isinstance(rows, list):
        return data
    sessions: dict[str, list[tuple[str, int, Json]]] = {}
    for i, row in enumerate(rows):
        trace = json_or_text(row.get("trace")) if isinstance(row, Mapping) else None
        info = trace.get("info") if isinstance(trace, Mapping) else None
        if not isinstance(info, Mapping):
            continue
        metadata: Any = info.get("trace_metadata") or info.get("request_metadata") or {}
        if session := metadata.get("mlflow.trace.session"):
            began = info.get("request_time", info.get("timestamp_ms"))
            sessions.setdefault(str(session), []).append((str(began), i, trace))
    found = {turns[0][1]: [trace for *_, trace in turns] for turns in map(_sort_turns, sessions.values())}
    return [{**row, "session": found[i]} if i in found else row for i, row in enumerate(rows)]


def _sort_turns(turns: list[tuple[str, int, Json]]) -> list[tuple[str, int, Json]]:
    return sorted(turns, key=lambda turn: turn[:2])


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
