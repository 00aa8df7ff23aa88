"""google-adk's own evaluation of an agent on an eval set, for comparison."""

import asyncio
from pathlib import Path

from google.adk.evaluation.base_eval_service import EvaluateConfig, EvaluateRequest, InferenceConfig, InferenceRequest
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.evaluation.local_eval_service import LocalEvalService
from google.adk.evaluation.metric_evaluator_registry import (
    DEFAULT_METRIC_EVALUATOR_REGISTRY,
    register_custom_metrics_from_config,
)


def evaluate_as_adk(agent, path, config):
    """Returns the EvalCaseResult of each case by its eval_id."""
    return asyncio.run(_evaluate(agent, path, config))


async def _evaluate(agent, path, config):
    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("app", "dice")
    for one in EvalSet.model_validate_json(Path(path).read_text()).eval_cases:
        manager.add_eval_case("app", "dice", one)
    asked = EvalConfig.model_validate(config)
    registry = register_custom_metrics_from_config(asked, DEFAULT_METRIC_EVALUATOR_REGISTRY.fork())
    service = LocalEvalService(agent, manager, registry)
    request = InferenceRequest(app_name="app", eval_set_id="dice", inference_config=InferenceConfig())
    inferred = [r async for r in service.perform_inference(request)]
    metrics = get_eval_metrics_from_config(asked)
    judged = EvaluateRequest(inference_results=inferred, evaluate_config=EvaluateConfig(eval_metrics=metrics))
    return {r.eval_id: r async for r in service.evaluate(judged)}
