"""ADK's test_config.json (EvalConfig): which criteria a case must meet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_snake

from ..errors import ConfigError, name_error
from ..json import Json

EXPECTING = frozenset(
    ("tool_trajectory_avg_score", "response_match_score", "final_response_match_v2", "response_evaluation_score")
)
"""Criteria that compare with the expectations of a case; they do not apply to scenarios."""
JUDGED: Mapping[str, tuple[str, ...]] = {
    "final_response_match_v2": ("prompt", "response", "reference"),
    "rubric_based_final_response_quality_v1": ("prompt", "response", "rubrics"),
    "rubric_based_tool_use_quality_v1": ("prompt", "predicted_trajectory", "rubrics"),
    "rubric_based_multi_turn_trajectory_quality_v1": ("turns", "rubrics"),
    "hallucinations_v1": ("prompt", "response", "turns"),
    "safety_v1": ("response",),
    "response_evaluation_score": ("prompt", "response"),
    "multi_turn_task_success_v1": ("turns",),
    "multi_turn_trajectory_quality_v1": ("turns",),
    "multi_turn_tool_use_quality_v1": ("turns",),
    "per_turn_user_simulator_quality_v1": ("turns", "scenario"),
}
"""Criteria that a judge model decides, and the inputs that it sees."""
REPORTED = ("tool_call_count_v1", "inference_call_count_v1", "token_usage_v1", "invocation_duration_v1")
"""Metrics reported for every run; never criteria."""
DEFAULT: Mapping[str, float] = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
"""Default criteria."""
_COMPUTED = ("tool_trajectory_avg_score", "response_match_score")
SIMULATOR_KEYS = (
    "type",
    "model",
    "model_configuration",
    "max_allowed_invocations",
    "custom_instructions",
    "include_function_calls",
)
"""Keys of `user_simulator_config`."""
_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")


@dataclass(frozen=True)
class Criterion:
    """A criterion of ADK.

    Attributes:
        name: ADK's name of the metric, or the name of a custom one.
        threshold: Minimum score of a case that passes.
        options: Further parameters of the metric as configured, keys in snake case.
        function: "package.module.function" of a custom metric; `None` for others.
    """

    name: str
    threshold: float
    options: Mapping[str, Json] = field(default_factory=dict)
    function: str | None = None

    def as_json(self) -> dict[str, Json]:
        """Converts the criterion to the form of ADK's results."""
        return {"threshold": self.threshold, **self.options}


@dataclass(frozen=True)
class AdkConfig:
    """The content of a test_config.json.

    Attributes:
        criteria: The criteria, in the order of the file.
        user_simulator: Configuration of the user simulator for scenarios, keys in snake case; `None` if there is none.
    """

    criteria: tuple[Criterion, ...]
    user_simulator: Mapping[str, Json] | None = None

    @property
    def judged(self) -> list[str]:
        """Criteria that need a judge model."""
        return [c.name for c in self.criteria if c.function is None and c.name in JUDGED]


def default_config() -> AdkConfig:
    """Builds ADK's default configuration."""
    return AdkConfig(tuple(Criterion(name, threshold) for name, threshold in DEFAULT.items()))


def read_config(data: Json, source: str) -> AdkConfig:
    """Reads a test_config.json (or eval_config.json).

    Args:
        data: The parsed JSON; without `criteria`, the default ones apply.
        source: Name of the file, for messages.

    Raises:
        ConfigError: Anything is invalid: an unknown metric, a threshold that is not a number, a misspelt match type.
            Everything is checked here, so that nothing fails after the agent was called.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"found {data!r:.50}", where=source, allowed="an object with criteria")
    given, functions = data.get("criteria"), _read_functions(data, source)
    simulator = _read_simulator(data.get("user_simulator_config", data.get("userSimulatorConfig")), source)
    if given is None:
        return AdkConfig(default_config().criteria, simulator)
    if not isinstance(given, Mapping) or not given:
        raise ConfigError(f"found {given!r:.50}", where=f"{source}: criteria", allowed="an object of thresholds")
    return AdkConfig(tuple(_read_criterion(str(n), v, functions, source) for n, v in given.items()), simulator)


def _read_criterion(name: str, value: Json, functions: Mapping[str, str], source: str) -> Criterion:
    where = f"{source}: criteria.{name}"
    if name in REPORTED:
        raise ConfigError("is reported for every run and takes no threshold", where=where)
    known = {*_COMPUTED, *JUDGED, *functions}
    if name not in known:
        raise name_error(f"no metric named {name!r}", name, known, where)
    options = (
        {to_snake(k): _convert_keys(v) for k, v in value.items()}
        if isinstance(value, Mapping)
        else {"threshold": value}
    )
    threshold = _parse_number(options.pop("threshold", None), where)
    if name == "tool_trajectory_avg_score" and "match_type" in options:
        options["match_type"] = _parse_match_type(options["match_type"], f"{where}.match_type")
    return Criterion(name, threshold, options, functions.get(name))


def _parse_number(value: Json, where: str) -> float:
    try:
        if not isinstance(value, bool) and value is not None and math.isfinite(number := float(value)):
            return number
    except (OverflowError, TypeError, ValueError):
        pass
    found = "no threshold" if value is None else f"the threshold {value!r:.50}"
    raise ConfigError(f"found {found}", where=where, allowed="a number, or an object with threshold")


def _parse_match_type(value: Json, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(_MATCH_TYPES):
        return _MATCH_TYPES[value]
    word = str(value).upper().replace("-", "_").replace(" ", "_")
    if word not in _MATCH_TYPES:
        raise ConfigError(f"found {value!r:.50}", where=where, allowed=", ".join(_MATCH_TYPES))
    return word


def _read_simulator(given: Json, source: str) -> Mapping[str, Json] | None:
    where = f"{source}: user_simulator_config"
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ConfigError(f"found {given!r:.50}", where=where, allowed="an object")
    found = {to_snake(key): value for key, value in given.items()}
    if found.get("type") not in (None, "llm_backed"):
        why = f"the type {found['type']!r} is not supported: users speak in text here"
        raise ConfigError(why, where=where, allowed="llm_backed")
    for key in found:
        if key not in SIMULATOR_KEYS:
            raise name_error(f"unknown key {key!r}", key, SIMULATOR_KEYS, where)
    most = found.get("max_allowed_invocations", 20)
    if not isinstance(most, int) or isinstance(most, bool) or most < -1:
        raise ConfigError(
            f"found {most!r:.50}", where=f"{where}.max_allowed_invocations", allowed="a whole number, or -1"
        )
    return found


def _read_functions(data: Mapping[str, Any], source: str) -> dict[str, str]:
    given = data.get("custom_metrics", data.get("customMetrics")) or {}
    found = {}
    for name, value in given.items():
        code = value.get("code_config", value.get("codeConfig")) if isinstance(value, Mapping) else None
        path = code.get("name") if isinstance(code, Mapping) else None
        if not isinstance(path, str) or "." not in path:
            where = f"{source}: custom_metrics.{name}"
            raise ConfigError(f"found {value!r:.80}", where=where, allowed='{code_config: {name: "module.function"}}')
        found[str(name)] = path
    return found


def _convert_keys(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {to_snake(k): _convert_keys(v) for k, v in value.items()}
    return [_convert_keys(v) for v in value] if isinstance(value, list) else value
