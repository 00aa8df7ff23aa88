"""Configurations that are valid, which together name every section, every kind of part and most parameters."""

from __future__ import annotations

import copy
from typing import Any

from ..run import every_metric

MODULE = """
class Queryable:
    def query(self, input):
        return input

class Predicting:
    def predict(self, request):
        return request

queryable, predicting = Queryable(), Predicting()

def ask(prompt):
    return prompt

def judge(messages, schema):
    return {}

def brief(row):
    return 1.0

def simulate(scenario):
    return None
"""
"""What the configurations name as `valid_parts`; it stands beside a `rows.jsonl`."""
ADK_MODULE = """
from google.adk.agents import Agent

agent = Agent(name="home", model="gemini-2.5-flash")
"""
"""The same as `valid_adk`."""
CHAIN_MODULE = """
from langchain_core.runnables import RunnableLambda

chain = RunnableLambda(lambda given: {"output": given["input"]})
"""
"""The same as `valid_chain`."""
POLICY: dict[str, Any] = {
    "timeout": 5,
    "deadline": 60,
    "max_attempts": 2,
    "max_in_flight": 8,
    "max_in_flight_total": 32,
    "requests_per_minute": 600,
    "tokens_per_minute": 1e6,
    "rate_limit": {"service": "limits:8081", "domain": "evals", "descriptors": [{"team": "search"}]},
    "rate_limit_timeout": 60,
    "max_abandoned_calls": 5,
    "max_answer_bytes": 1000,
    "failure_threshold": 0.2,
    "failure_window": 50,
    "retry_on": ["Overloaded"],
    "backoff": 0.1,
    "max_backoff": 1,
}
JUDGES: dict[str, Any] = {
    "default": {"type": "google", "model": "gemini-2.5-flash", "api_key": "${env:KEY}", "price": None, **POLICY},
    "gemini": {"type": "google", "model": "gemini-2.5-flash", "project": "p", "location": "global", "vertex": True},
    "gpt": {"type": "openai", "model": "gpt-x", "base_url": "https://models.example.com/v1", "combine_metrics": True},
    "claude": {"type": "anthropic", "model": "claude-x", "mode": "live", "temperature": 0.5, "max_tokens": 100},
    "own": "valid_parts:judge",
}
JUDGES["default"].pop("price")
DATASET: dict[str, Any] = {"path": "rows.jsonl"}
PLAIN: dict[str, Any] = {
    "dataset": {
        "path": ["rows.jsonl"],
        "format": "jsonl",
        "dialect": "plain",
        "id": "number",
        "columns": {"score": "float64", "question": "prompt", "zip": {"type": "string", "as": "context"}},
        "limit": 5,
        "sample": 0.9,
        "max_invalid_fraction": 0.5,
    },
    "agent": {
        "type": "function",
        "target": "valid_parts:ask",
        "version": "1",
        "model": "m",
        "secrets": ["HOME"],
        **POLICY,
    },
    "metrics": [
        "exact_match",
        {"metric": "trajectory_recall", "name": "tools", "args": {"find": ["id"], "look": "ignore"}},
        {"metric": "trajectory_exact_match", "profile": "adk", "ignore_args": True, "multiplicity": "set"},
        {"metric": "rouge", "rouge_type": "rougeL", "use_stemmer": False, "split_summaries": True},
        {"metric": "bleu", "tokenize": "intl", "smooth": "exp", "lowercase": True},
        {"metric": "tool_parameter_kv_match", "calls": "all", "denominator": "union", "decimals": 2},
        {"metric": "valid_parts:brief", "name": "brief"},
    ],
    "criteria": [
        {"metric": "exact_match", "min": 0.1, "slice": {"category": "even"}, "confidence": 0.8},
        {"metric": "tools", "statistic": "p95", "max": 1},
    ],
    "slices": ["locale", ["category"], ["category", "locale"]],
    "trials": 2,
    "budget": {"max_calls": 1000, "max_tokens": 10**6},
    "statistics": {"ci": "normal", "confidence": 0.9, "on_failure": "worst"},
    "output": {
        "path": "out",
        "format": "csv",
        "compression": "gzip",
        "shards": 2,
        "escape_formulas": True,
        "mlflow": {"tracking_uri": "http://mlflow.example.com", "experiment": "e", "run_name": "r", "max_traces": 9},
        "otel": {"endpoint": "http://collector.example.com"},
        "vertex_experiment": {"project": "p", "location": "l", "experiment": "e", "run_name": "r"},
    },
    "compat": {"float32": True, "win_rate_all_rows": True, "adk_verdicts": False},
    "shards": 16,
}
HTTP: dict[str, Any] = {
    "dataset": DATASET,
    "agent": {
        "target": "https://agent.example.com/ask/{user_id}",
        "method": "POST",
        "headers": {"Authorization": "Bearer ${env:AGENT_TOKEN}"},
        "body": {"question": "{prompt}", "session": [{"user": "{user_id}"}, 1, None]},
        "answer": {"response": "output.text", "predicted_trajectory": "steps[*].tool_call", "usage": "usage"},
        "auth": "google",
        "secrets": {"AGENT_TOKEN": "${env:HOME}"},
    },
    "metrics": [{"metric": "exact_match", "pass_k": [1]}],
    "criteria": {"exact_match": {"statistic": "corrected_mean", "min": 0.5}, "failure": {"max": 0.1}},
    "labels": {"path": "labels.jsonl", "columns": {"exact_match": "person"}, "probability": "chance"},
    "statistics": {
        "ci": "bootstrap",
        "cluster": "prompt",
        "ratios": {"seconds": ["latency_in_seconds", "exact_match"]},
    },
}
CHAT: dict[str, Any] = {
    "dataset": DATASET,
    "agent": {
        "target": "https://models.example.com/v1/chat/completions",
        "preset": "openai_chat",
        "body": {"model": "m"},
    },
    "metrics": ["exact_match"],
}
JUDGED: dict[str, Any] = {
    "dataset": {**DATASET, "id": "number", "trial": "number"},
    "metrics": [
        "fluency",
        {"metric": "groundedness", "samples": 3, "judge": ["gemini", "gpt", "claude"], "aggregate": "median"},
        {"metric": "pairwise", "metric_prompt_template": "{response} or {baseline_model_response}?", "flip": True},
        {"metric": "pointwise", "name": "follows", "criteria": {"Follows": "It follows."},
         "rating_rubric": {"1": "It does.", "0": "It does not."}, "input_variables": ["prompt"],
         "metric_definition": "How well it follows.", "evaluation_steps": {"1": "Look."}, "judge": "own",
         "few_shot_examples": ["good: 1"]},
        {"metric": "rubric", "name": "polite", "rubrics": ["It greets.", "It thanks."]},
        {"metric": "grounding", "facts_from": "retrieved_context", "anti_citations": True, "checker": "judge"},
        {"metric": "databricks/global_guideline_adherence", "guidelines": {"english": ["Be English"]}, "rows": "asked"},
    ],
    "judges": JUDGES,
    "prices": {"gpt-x": {"input": 2.0, "output": 8.0, "batch_input": 1.0, "batch_output": 4.0, "date": "2026-11-01"}},
    "currency": "EUR",
    "output": {"path": "out", "column_style": "databricks"},
}  # fmt: skip
ADK: dict[str, Any] = {
    "dataset": {"path": "rows.jsonl", "dialect": "adk"},
    "agent": {
        "type": "adk",
        "target": "valid_adk:agent",
        "session": {"app_name": "home", "user_id": "u", "state": {"a": [1]}},
        "turn_timeout": 5,
        "simulator": {"judge": {"type": "google", "model": "m"}, "max_turns": 3, "stop_signal": "END"},
    },
    "metrics": [
        {"metric": "tool_trajectory_avg_score", "match_type": "IN_ORDER"},
        {"metric": "adk/final_response_match_v2", "judge": "default", "samples": 1},
        {"metric": "adk/rubric_based_tool_use_quality_v1", "rubrics": every_metric.RUBRICS},
        {"metric": "hallucinations_v1", "evaluate_intermediate_nl_responses": True},
    ],
    "judges": {"default": {"type": "openai", "model": "gpt-x", "combine_metrics": True}},
    "output": {"path": "out", "format": "adk_result"},
    "criteria": [{"metric": "tool_trajectory_avg_score", "min": 0.5}],
}
SCRIPTED: dict[str, Any] = {
    "dataset": DATASET,
    "agent": {"type": "adk", "target": "valid_adk:agent", "simulator": {"script": ["Hello", {"a": [1]}]}},
    "metrics": [{"metric": "custom", "metric_function": "valid_parts:brief", "name": "custom"}],
}


TYPES: dict[str, Any] = {
    "dataset": DATASET,
    "agent": {"type": "langchain", "target": "valid_chain:chain", "input_key": "input", "output_key": "output"},
    "metrics": ["exact_match"],
}
PREDICTED: dict[str, Any] = {
    "dataset": DATASET,
    "agent": {"type": "mlflow", "target": "valid_parts:predicting", "packages": []},
    "metrics": ["exact_match"],
    "slices": [],
}


def all_metrics() -> dict[str, Any]:
    """Every registered metric at once."""
    metrics = [m for m in every_metric.metrics() if m["metric"] != "custom"]
    return {"dataset": DATASET, "metrics": metrics, "judges": {n: JUDGES[n] for n in ("default", *every_metric.JUDGES)}}


def valid() -> list[dict[str, Any]]:
    """All of them, each a copy of its own."""
    return copy.deepcopy([PLAIN, HTTP, CHAT, JUDGED, ADK, SCRIPTED, TYPES, PREDICTED, all_metrics()])
