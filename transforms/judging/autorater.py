"""Reads the autorater configuration of the Vertex AI SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..io.google_genai import MODEL

MAX_SAMPLES = 32
"""Maximum number of votes that the service allows."""
_KEYS = ("sampling_count", "flip_enabled", "autorater_model", "generation_config")


@dataclass(frozen=True, kw_only=True)
class AutoraterConfig:
    """The settings of an autorater, under the SDK's names.

    Attributes:
        autorater_model: Name of the judge model, or the resource name of a publisher's model.
        sampling_count: Number of votes, 1 to 32.
        flip_enabled: True to swap the two answers in half of the votes.
        generation_config: `temperature` and `max_output_tokens`, as a mapping or an SDK object.
    """

    autorater_model: str | None = None
    sampling_count: int | None = None
    flip_enabled: bool | None = None
    generation_config: Any = None


@dataclass(frozen=True)
class Autorater:
    """The settings of an autorater; `None` keeps the metric's own setting.

    Attributes:
        samples: Number of votes.
        flip: True to swap the two answers in half of the votes.
        model: Name of the judge model, or the resource name of a publisher's model.
        temperature: Sampling temperature.
        max_tokens: Maximum tokens of an answer.
    """

    samples: int | None = None
    flip: bool | None = None
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None

    @property
    def judge(self) -> str:
        """The judge's name in a configuration: the last part of its model's name."""
        return (self.model or "").rpartition("/")[2]

    @property
    def section(self) -> dict[str, Any]:
        """The judge's section of a configuration.

        Raises:
            ValueError: The model is a tuned endpoint, or not the name of a model.
        """
        model = self.model or ""
        match = MODEL.fullmatch(model)
        if match is None and "/" in model:
            raise ValueError(f"autorater_model is {model!r}, allowed: a model's name, or projects/P/.../models/M")
        project, location, name = match.groups() if match else (None, None, model)
        given = {"project": project, "location": location, "temperature": self.temperature}
        given["max_tokens"] = self.max_tokens
        return {"type": "google", "model": name, **{k: v for k, v in given.items() if v is not None}}


def autorater_of(config: Any) -> Autorater:
    """Reads an `AutoraterConfig` of the SDK, or a mapping with its keys; `None` sets nothing.

    Raises:
        ValueError: A key is unknown, or a value is not allowed.
    """
    if config is None:
        return Autorater()
    if isinstance(config, AutoraterConfig):
        config = vars(config)
    if isinstance(config, Mapping):
        if unknown := next((key for key in config if key not in _KEYS), None):
            raise ValueError(f"autorater_config has an unknown key {unknown!r}, allowed: {', '.join(_KEYS)}")
        get: Any = config.get
    elif all(hasattr(config, key) for key in _KEYS):
        get = partial(_field, config)
    else:
        raise ValueError(f"autorater_config is {type(config).__name__}, allowed: an AutoraterConfig or a mapping")
    generation = get("generation_config") or {}
    if isinstance(generation, str | int | float | list):
        raise ValueError(f"generation_config is {generation!r}, allowed: a GenerationConfig or a mapping")
    inner: Any = generation.get if isinstance(generation, Mapping) else partial(_field, generation)
    samples, flip = _read_samples(get("sampling_count")), _read_flip(get("flip_enabled"))
    return Autorater(samples, flip, get("autorater_model") or None, inner("temperature"), inner("max_output_tokens"))


def _read_samples(given: Any) -> int | None:
    """Reads the number of votes, which may be a quoted number as in the API's JSON."""
    if given is None:
        return None
    found = int(given) if isinstance(given, str) and given.isdecimal() else given
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= MAX_SAMPLES:
        raise ValueError(f"sampling_count is {given}, allowed: 1 to {MAX_SAMPLES}")
    return found


def _read_flip(given: Any) -> bool | None:
    """Reads a boolean, which may be quoted."""
    found = {"true": True, "false": False}.get(given.lower(), given) if isinstance(given, str) else given
    if found is not None and not isinstance(found, bool):
        raise ValueError(f"flip_enabled is {given}, allowed: true or false")
    return found


def _field(message: Any, key: str) -> Any:
    """Returns a field of a message of google-cloud-aiplatform, or `None` if it is not set."""
    return getattr(message, key) if key in message else None
