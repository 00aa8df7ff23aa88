"""Converts the judge models of an ADK configuration to judges of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_snake

from ...schemas.config.evaluation import JudgeConfig
from ...schemas.errors import ConfigError
from ...schemas.formats.adk_config import JUDGED, Criterion

MODEL = "gemini-2.5-flash"
"""ADK's default model for criteria that name none."""
_PREFIXES = {"gemini": "google", "vertex_ai": "google", "openai": "openai", "anthropic": "anthropic"}
_STARTS = {"gemini": "google", "gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic"}
_KEYS = {"temperature": "temperature", "max_output_tokens": "max_tokens"}


class Judges:
    """The judges of ADK's criteria: those of the configuration, and those built from the models that criteria name.

    Attributes:
        made: The judges built so far, by name, as in the section `judges` of a configuration.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.made: dict[str, Any] = {}

    def build_parameters(self, criterion: Criterion) -> dict[str, Any]:
        """Builds the parameters `judge` and `samples` of a criterion's metric.

        The judge is the configured one with the name of the model, or the configured "default" if the criterion names
        no model; else a judge is built from the model. ADK's `parallelism_limit` is ignored: `max_in_flight` of the
        judge bounds concurrency.

        Raises:
            ConfigError: The criterion's options are invalid, or the provider of its model is unknown.
        """
        if criterion.function is not None or criterion.name not in JUDGED:
            return {}
        options: Any = criterion.options.get("judge_model_options") or {}
        where = f"criteria.{criterion.name}.judge_model_options"
        if not isinstance(options, Mapping):
            raise ConfigError(f"found {options!r:.50}", where=where, allowed="an object")
        parameters: dict[str, Any] = {
            "judge": self.choose_judge(options.get("judge_model"), options, criterion.name, where)
        }
        samples = options.get("num_samples")
        if samples is not None:
            if not isinstance(samples, int) or isinstance(samples, bool):
                raise ConfigError(f"num_samples is {samples!r:.50}", where=where, allowed="a whole number")
            parameters["samples"] = samples
        return parameters

    def choose_judge(self, model: str | None, options: Mapping[str, Any], use: str, where: str) -> str:
        """Returns the name of the judge for a model, building the judge if needed."""
        if model is None and "default" in self.given:
            return "default"
        name = model or MODEL
        if name in self.given:
            return name
        made = build_judge(name, options.get("judge_model_config") or {}, where)
        if self.made.setdefault(name, made) != made:
            name = f"{name} ({use})"
            self.made[name] = made
        return name


def build_simulator(config: Mapping[str, Any], judges: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Builds `agent.simulator` from ADK's `user_simulator_config`.

    The model is the judge of that name if one is configured, without the policy of its calls.

    Raises:
        ConfigError: The provider of the model is unknown, or its settings are not the provider's.
    """
    model, where = config.get("model") or MODEL, "user_simulator_config"
    given = (judges or {}).get(model)
    settings = config.get("model_configuration") or {}
    if isinstance(given, Mapping):
        judge = {key: value for key, value in given.items() if key == "type" or key not in JudgeConfig.model_fields}
    else:
        judge = given or build_judge(model, {to_snake(k): v for k, v in settings.items()}, where)
    found = {"judge": judge, "max_turns": config.get("max_allowed_invocations", 20)}
    found["function_calls"] = bool(config.get("include_function_calls", False))
    return {**found, "template": config.get("custom_instructions")}


def build_judge(model: str, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Builds an entry of the section `judges` for a model as ADK names it.

    Args:
        model: "gemini-2.5-flash", "openai/gpt-5", "claude-...".
        config: ADK's generation config, keys in snake case.
        where: Location for error messages.

    Raises:
        ConfigError: The model's provider is unknown, or its configuration has keys that this provider does not take.
    """
    prefix, slash, rest = model.partition("/")
    kind = (
        _PREFIXES.get(prefix) if slash else next((k for start, k in _STARTS.items() if model.startswith(start)), None)
    )
    if kind is None:
        found = f"the provider of the model {model!r} is unknown"
        raise ConfigError(found, where=where, allowed=f"a judge of that name, judges: {{{model!r}: ...}}")
    own = {_KEYS[k]: v for k, v in config.items() if k in _KEYS and v is not None}
    request = {k: v for k, v in config.items() if k not in _KEYS and v is not None}
    if request and kind != "google":
        known = ", ".join(_KEYS)
        raise ConfigError(f"judge_model_config: {', '.join(request)} is for Gemini only", where=where, allowed=known)
    return {"type": kind, "model": rest or model, **own, **({"request": request} if request else {})}
