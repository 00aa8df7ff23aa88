"""google-adk's own evaluation of an agent on an eval set, for comparison."""

import asyncio

from google.adk.agents import BaseAgent
from google.adk.evaluation.agent_evaluator import AgentEvaluator
from google.adk.evaluation.base_eval_service import EvaluateConfig, EvaluateRequest, InferenceConfig, InferenceRequest
from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.evaluation.local_eval_service import LocalEvalService
from google.adk.evaluation.local_eval_sets_manager import load_eval_set_from_file
from google.adk.evaluation.metric_evaluator_registry import (
    DEFAULT_METRIC_EVALUATOR_REGISTRY,
    register_custom_metrics_from_config,
)
from google.adk.events.event import Event
from google.genai.types import Content, FunctionCall, Part


class Echo(BaseAgent):
    """Says what the user says, and calls a tool before if that has an odd number of characters."""

    async def _run_async_impl(self, ctx):
        text = ctx.user_content.parts[0].text or ""
        call = Part(function_call=FunctionCall(name="look", args={}))
        for part in [*([call] if len(text) % 2 else []), Part(text=text)]:
            content = Content(role="model", parts=[part])
            yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


def load_as_adk(path):
    """Loads a file as `adk eval` does, or, if it has turns of an older form, as AgentEvaluator does."""
    try:
        return load_eval_set_from_file(path, "dice")
    except KeyError:
        return AgentEvaluator._load_eval_set_from_file(path, EvalConfig(criteria={}), {})


def evaluate_as_adk(agent, path, config):
    """Returns the EvalCaseResult of each case by its eval_id."""
    return asyncio.run(_evaluate(agent, path, config))


async def _evaluate(agent, path, config):
    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("app", "dice")
    for one in load_as_adk(str(path)).eval_cases:
        manager.add_eval_case("app", "dice", one)
    asked = EvalConfig.model_validate(config)
    registry = register_custom_metrics_from_config(asked, DEFAULT_METRIC_EVALUATOR_REGISTRY.fork())
    service = LocalEvalService(agent, manager, registry)
    request = InferenceRequest(app_name="app", eval_set_id="dice", inference_config=InferenceConfig())
    inferred = [r async for r in service.perform_inference(request)]
    metrics = get_eval_metrics_from_config(asked)
    judged = EvaluateRequest(inference_results=inferred, evaluate_config=EvaluateConfig(eval_metrics=metrics))
    return {r.eval_id: r async for r in service.evaluate(judged)}
