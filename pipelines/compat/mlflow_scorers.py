"""MLflow 3's built-in scorers as metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.formats.databricks import JUDGES
from ...schemas.json import Json
from ...schemas.values import json_or_text
from ...transforms import registry
from ..run.judges import FAMILIES
from .metric_configs import name_metric

BUILT_IN = {
    "Completeness": "mlflow/completeness",
    "ConversationCompleteness": "mlflow/conversation_completeness",
    "ConversationalGuidelines": "mlflow/conversational_guidelines",
    "ConversationalRoleAdherence": "mlflow/conversational_role_adherence",
    "ConversationalSafety": "mlflow/conversational_safety",
    "ConversationalToolCallEfficiency": "mlflow/conversational_tool_call_efficiency",
    "Correctness": "databricks/correctness",
    "Equivalence": "mlflow/equivalence",
    "ExpectationsGuidelines": "databricks/guideline_adherence",
    "Fluency": "mlflow/fluency",
    "Guidelines": "databricks/global_guideline_adherence",
    "KnowledgeRetention": "mlflow/knowledge_retention",
    "RelevanceToQuery": "databricks/relevance_to_query",
    "RetrievalGroundedness": "databricks/groundedness",
    "RetrievalRelevance": "databricks/chunk_relevance",
    "RetrievalSufficiency": "databricks/context_sufficiency",
    "Safety": "databricks/safety",
    "Summarization": "mlflow/summarization",
    "ToolCallCorrectness": "mlflow/tool_call_correctness",
    "ToolCallEfficiency": "mlflow/tool_call_efficiency",
    "UserFrustration": "mlflow/user_frustration",
}
"""Built-in scorers of MLflow that are decided here: class -> metric."""
COMPUTED = ("PIIDetection", "RegexMatch", "ResponseLength")
"""Built-in scorers that MLflow computes itself, without a model; they need their parameters, so names do not do."""
MATCH = "mlflow/tool_call_match"
"""The metric of ToolCallCorrectness with `should_exact_match`, which no judge decides."""
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

    The rows of its other traces get an empty list. The session of a trace is its metadata `mlflow.trace.session`, as in
    MLflow.
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
    found: dict[int, list[Json]] = {}
    for turns in map(_sort_turns, sessions.values()):
        found |= {i: [] for _, i, _ in turns} | {turns[0][1]: [trace for *_, trace in turns]}
    return [{**row, "session": found[i]} if i in found else row for i, row in enumerate(rows)]


def _sort_turns(turns: list[tuple[str, int, Json]]) -> list[tuple[str, int, Json]]:
    return sorted(turns, key=lambda turn: turn[:2])


def _class_of(scorer: Any) -> str:
    """Returns the class of a built-in scorer, given as its object, its class or its name; "" for anything else."""
    if isinstance(scorer, str):
        return scorer
    kind = scorer if isinstance(scorer, type) else type(scorer)
    return kind.__name__ if kind.__module__.startswith("mlflow.genai.scorers") else ""


def judges_sessions(scorer: Any) -> bool:
    """Returns true if a scorer or metric judges whole conversations, so that it can use the traces of a session."""
    if getattr(scorer, "is_session_level_scorer", False) or getattr(scorer, "sessions", False) is True:
        return True
    name = scorer.get("metric") if isinstance(scorer, Mapping) else scorer
    if not isinstance(name, str) or ":" in name:
        return False
    full = registry.full_name("metric", BUILT_IN.get(name, name), FAMILIES["databricks"])
    return full in registry.names("metric") and getattr(registry.find("metric", full).factory, "sessions", False)


def _build(scorer: Any, there: bool, where: str) -> Any:
    kind = _class_of(scorer)
    if kind in COMPUTED and isinstance(scorer, str | type):
        raise ConfigError(f"{kind} alone", where=where, allowed=f"an object of it, {kind}(...), with its parameters")
    if kind not in BUILT_IN:
        return name_metric(scorer)
    metric = BUILT_IN[kind]
    judge = metric.partition("/")[2]
    default = JUDGES[judge].scorer if judge in JUDGES else judge
    name = getattr(scorer, "name", "") if not isinstance(scorer, str | type) else ""
    config = {"metric": metric, "name": judge if name in ("", default) else name, **_build_params(kind, scorer, where)}
    if getattr(scorer, "should_exact_match", False) is True:
        return {**config, "metric": MATCH}
    if not there:
        raise ConfigError(f"{kind} needs a judge model, and none is configured", where=where, allowed=_EXAMPLE)
    return config


def _build_params(kind: str, scorer: Any, where: str) -> dict[str, Any]:
    """Returns the parameters of the metric of a built-in scorer.

    Raises:
        ConfigError: It has no guidelines, and needs them.
    """
    if kind == "ToolCallCorrectness":
        return {"ordered": getattr(scorer, "should_consider_ordering", False) is True}
    if kind not in ("Guidelines", "ConversationalGuidelines"):
        return {}
    guidelines = None if isinstance(scorer, str | type) else getattr(scorer, "guidelines", None)
    if guidelines is None:
        raise ConfigError(f"{kind} has no guidelines", where=where, allowed=f"{kind}(guidelines=[...])")
    return {"guidelines": [guidelines] if isinstance(guidelines, str) else list(guidelines)}
