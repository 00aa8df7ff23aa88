"""Evaluates generative-AI agents over datasets of any size, on Apache Beam.

This page is the whole public API. Nothing is imported before its first use, so that `import evalbeam` costs
milliseconds and leaves Beam, pandas and pyarrow alone.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pipelines.adk.agent_evaluator import AgentEvaluator
    from .pipelines.adk.assert_eval import assert_eval
    from .pipelines.adk.evaluate import adk_evaluate
    from .pipelines.compare import Comparison, compare
    from .pipelines.compat.check_grounding import check_grounding
    from .pipelines.compat.eval_result import EvalResult
    from .pipelines.compat.eval_task import EvalTask
    from .pipelines.compat.evaluate_autorater import evaluate_autorater
    from .pipelines.compat.evaluate_instances import evaluate_instances
    from .pipelines.compat.genai_evaluate import genai_evaluate
    from .pipelines.compat.mlflow_evaluate import mlflow_evaluate
    from .pipelines.compat.prompt_template import PromptTemplate
    from .pipelines.compat.rubrics import PredefinedRubricMetrics, RubricBasedMetric
    from .pipelines.run.build import make_plan
    from .pipelines.run.evaluate import Evaluate, evaluate, run
    from .pipelines.run.plan import Plan
    from .pipelines.run.result import EvaluationResult
    from .schemas.config.evaluation import EvaluationConfig
    from .schemas.errors import AgentError, ConfigError, EvalbeamError, JudgeError, RowError, RunError
    from .schemas.instance import Chunk, Example, Instance, Invocation, Step, ToolCall, Trajectory, Turn, Usage
    from .schemas.result import Score, ScoreColumn
    from .transforms.agents.base import Agent
    from .transforms.judging.autorater import AutoraterConfig
    from .transforms.judging.raw_output import CustomOutputConfig
    from .transforms.judging.templates import PairwiseMetricPromptTemplate, PointwiseMetricPromptTemplate
    from .transforms.metrics.base import Metric, ScoringBatch
    from .transforms.metrics.custom import CustomMetric
    from .transforms.metrics.rubric import RubricGenerationConfig
    from .transforms.metrics.template import MetricPromptTemplateExamples, PairwiseMetric, PointwiseMetric
    from .transforms.metrics.text import Rouge
    from .transforms.metrics.trajectory import TrajectorySingleToolUse
    from .transforms.metrics.translation import Comet, MetricX
    from .transforms.registry import register

    __version__: str

# Beam logs this as it is imported without its extra gcp. Only its own BigQuery connector, which is not used, misses it.
logging.getLogger().addFilter(lambda record: not str(record.msg).startswith("apitools not found"))

_HOMES = {
    "pipelines.adk.agent_evaluator": ("AgentEvaluator",),
    "pipelines.adk.assert_eval": ("assert_eval",),
    "pipelines.adk.evaluate": ("adk_evaluate",),
    "pipelines.compare": ("Comparison", "compare"),
    "pipelines.compat.eval_result": ("EvalResult",),
    "pipelines.compat.eval_task": ("EvalTask",),
    "pipelines.compat.evaluate_autorater": ("evaluate_autorater",),
    "pipelines.compat.prompt_template": ("PromptTemplate",),
    "pipelines.compat.rubrics": ("PredefinedRubricMetrics", "RubricBasedMetric"),
    "pipelines.run.evaluate": ("Evaluate", "evaluate", "run"),
    "pipelines.compat.evaluate_instances": ("evaluate_instances",),
    "pipelines.compat.check_grounding": ("check_grounding",),
    "pipelines.compat.genai_evaluate": ("genai_evaluate",),
    "pipelines.compat.mlflow_evaluate": ("mlflow_evaluate",),
    "pipelines.run.build": ("make_plan",),
    "pipelines.run.plan": ("Plan",),
    "pipelines.run.result": ("EvaluationResult",),
    "schemas.config.evaluation": ("EvaluationConfig",),
    "schemas.errors": ("AgentError", "ConfigError", "EvalbeamError", "JudgeError", "RowError", "RunError"),
    "schemas.instance": (
        "Chunk",
        "Example",
        "Instance",
        "Invocation",
        "Step",
        "ToolCall",
        "Trajectory",
        "Turn",
        "Usage",
    ),
    "schemas.result": ("Score", "ScoreColumn"),
    "transforms.agents.base": ("Agent",),
    "transforms.metrics.base": ("Metric", "ScoringBatch"),
    "transforms.judging.autorater": ("AutoraterConfig",),
    "transforms.judging.raw_output": ("CustomOutputConfig",),
    "transforms.judging.templates": ("PairwiseMetricPromptTemplate", "PointwiseMetricPromptTemplate"),
    "transforms.metrics.custom": ("CustomMetric",),
    "transforms.metrics.rubric": ("RubricGenerationConfig",),
    "transforms.metrics.template": ("MetricPromptTemplateExamples", "PairwiseMetric", "PointwiseMetric"),
    "transforms.metrics.text": ("Rouge",),
    "transforms.metrics.trajectory": ("TrajectorySingleToolUse",),
    "transforms.metrics.translation": ("Comet", "MetricX"),
    "transforms.registry": ("register",),
}

__all__ = [
    "Agent",
    "AgentError",
    "AgentEvaluator",
    "AutoraterConfig",
    "Chunk",
    "Comet",
    "Comparison",
    "ConfigError",
    "CustomMetric",
    "CustomOutputConfig",
    "EvalResult",
    "EvalTask",
    "EvalbeamError",
    "Evaluate",
    "EvaluationConfig",
    "EvaluationResult",
    "Example",
    "Instance",
    "Invocation",
    "JudgeError",
    "Metric",
    "MetricPromptTemplateExamples",
    "MetricX",
    "PairwiseMetric",
    "PairwiseMetricPromptTemplate",
    "Plan",
    "PointwiseMetric",
    "PointwiseMetricPromptTemplate",
    "PredefinedRubricMetrics",
    "PromptTemplate",
    "Rouge",
    "RowError",
    "RubricBasedMetric",
    "RubricGenerationConfig",
    "RunError",
    "Score",
    "ScoreColumn",
    "ScoringBatch",
    "Step",
    "ToolCall",
    "Trajectory",
    "TrajectorySingleToolUse",
    "Turn",
    "Usage",
    "__version__",
    "adk_evaluate",
    "assert_eval",
    "check_grounding",
    "compare",
    "evaluate",
    "evaluate_autorater",
    "evaluate_instances",
    "genai_evaluate",
    "make_plan",
    "mlflow_evaluate",
    "register",
    "run",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("evalbeam")
    else:
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'evalbeam' has no attribute {name!r}")
        _require_system()
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def _require_system() -> None:
    from .schemas.errors import ConfigError, require_system

    try:
        require_system()
    except ConfigError as error:
        raise ImportError(str(error)) from None


def __dir__() -> list[str]:
    return __all__
