"""The models that ADK's configuration names, as judges of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.formats.adk_config import JUDGED, Criterion

MODEL = "gemini-2.5-flash"
"""ADK's model where a criterion names none."""
_PREFIXES = {"gemini": "google", "vertex_ai": "google", "openai": "openai", "anthropic": "anthropic"}
_STARTS = {"gemini": "google", "gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude": "anthropic"}
_KEYS = {"temperature": "temperature", "max_output_tokens": "max_tokens"}


class Judges:
    """The judges that criteria ask: those that are given, and those made of the models that the criteria name.

    Attributes:
        made: The judges made so far, by name, as in the section `judges` of a configuration.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.made: dict[str, Any] = {}

    def asked_by(self, criterion: Criterion) -> dict[str, Any]:
        """The parameters `judge` and `samples` of a criterion's metric.

        The judge is the given one that has the model's name, or without a model in the criterion the given "default";
        else the model itself. ADK's `parallelism_limit` has no meaning here: `max_in_flight` of a judge bounds it.
        """
        if criterion.function is not None or criterion.name not in JUDGED:
            return {}
        options: Any = criterion.options.get("judge_model_options") or {}
        where = f"criteria.{criterion.name}.judge_model_options"
        if not isinstance(options, Mapping):
            raise ConfigError(f"found {options!r:.50}", where=where, allowed="an object")
        found: dict[str, Any] = {"judge": self.named(options.get("judge_model"), options, criterion.name, where)}
        samples = options.get("num_samples")
        if samples is not None:
            if not isinstance(samples, int) or isinstance(samples, bool):
                raise ConfigError(f"num_samples is {samples!r:.50}", where=where, allowed="a whole number")
            found["samples"] = samples
        return found

    def named(self, model: str | None, options: Mapping[str, Any], use: str, where: str) -> str:
        """Name of the judge for a model."""
        if model is None and "default" in self.given:
            return "default"
        name = model or MODEL
        if name in self.given:
            return name
        made = judge_of(name, options.get("judge_model_config") or {}, where)
        if self.made.setdefault(name, made) != made:
            name = f"{name} ({use})"
            self.made[name] = made
        return name


def judge_of(model: str, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A judge as in the section `judges`, for a model as ADK names it.

    Args:
        model: "gemini-2.5-flash", "openai/gpt-5", "claude-...".
        config: ADK's configuration of the model's answers, keys in snake case.
        where: What to name in errors.

    Raises:
        ConfigError: It is not known where the model is, or the configuration does not fit it.
    """
    prefix, slash, rest = model.partition("/")
    kind = (
        _PREFIXES.get(prefix) if slash else next((k for start, k in _STARTS.items() if model.startswith(start)), None)
    )
    if kind is None:
        found = f"nobody knows where the model {model!r} is"
        raise ConfigError(found, where=where, allowed=f"a judge of that name, judges: {{{model!r}: ...}}")
    own = {_KEYS[k]: v for k, v in config.items() if k in _KEYS and v is not None}
    request = {k: v for k, v in config.items() if k not in _KEYS and v is not None}
    if request and kind != "google":
        known = ", ".join(_KEYS)
        raise ConfigError(f"judge_model_config: {', '.join(request)} is Gemini's", where=where, allowed=known)
    return {"type": kind, "model": rest or model, **own, **({"request": request} if request else {})}
