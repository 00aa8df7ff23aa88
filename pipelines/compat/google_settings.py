"""Judges and models of EvalTask that nobody configured: through Google's client, with the settings of the environment.

They are where the Vertex AI SDK would call them: in the project and location of `vertexai.init`, else of the variables
GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION (or GOOGLE_CLOUD_REGION). Without a project the Gemini API is used, with
the key in GOOGLE_API_KEY or GEMINI_API_KEY.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from ...schemas.errors import ConfigError
from ...transforms.registry import has_module

MODEL = "gemini-2.5-flash"
"""The judge that is asked if none is named."""
LOCATION = "us-central1"
"""The location that the Vertex AI SDK calls if none is given."""
_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_REGIONS = ("GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION")
_CREDENTIALS = "gcloud auth application-default login, or the key of a Gemini API in GOOGLE_API_KEY"


def find_place(where: str, allowed: str) -> dict[str, str]:
    """Finds where Google's models are called: {project, location} of Vertex AI, or {} for the Gemini API.

    Args:
        where: What needs it, for messages.
        allowed: What could be configured instead.

    Raises:
        ConfigError: There is neither a project with credentials nor a key.
    """
    project, location = _settings_of_the_sdk()
    keyed = any(os.environ.get(name) for name in _KEYS)
    if project is None and (not keyed or os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("1", "true")):
        project = os.environ.get("GOOGLE_CLOUD_PROJECT") or None
    if project is None:
        if keyed:
            return {}
        found = "neither a project of Google Cloud (vertexai.init, GOOGLE_CLOUD_PROJECT) nor a key (GOOGLE_API_KEY)"
        raise ConfigError(f"{found} is set", where=where, allowed=f"one of them, or {allowed}")
    _require_credentials(where, allowed)
    return {"project": project, "location": location or _find_region()}


def find_project() -> dict[str, str]:
    """Finds where an experiment is kept: {project, location}, or {} if no project is set, or its client is missing."""
    project, location = _settings_of_the_sdk()
    project = project or os.environ.get("GOOGLE_CLOUD_PROJECT") or None
    if project is None or not has_module("google.cloud.aiplatform"):
        return {}
    return {"project": project, "location": location or _find_region()}


def default_judge() -> dict[str, Any]:
    """The section of the judge that is asked if none is named.

    Raises:
        ConfigError: As for `find_place`.
    """
    allowed = 'a judge: judges={"default": {"type": ..., "model": ...}}'
    return {"type": "google", "model": MODEL, **find_place("judges.default", allowed)}


def default_service() -> dict[str, Any]:
    """The section of the evaluation service, which alone computes some metrics.

    Raises:
        ConfigError: There is no project with credentials.
    """
    allowed = 'judges={"vertex_eval": {"type": "vertex_eval", "project": ...}}'
    place = find_place("judges.vertex_eval", allowed)
    if not place:
        found = "the evaluation service needs a project of Google Cloud (vertexai.init, GOOGLE_CLOUD_PROJECT)"
        raise ConfigError(found, where="judges.vertex_eval", allowed=allowed)
    return {"type": "vertex_eval", **place}


def place_model(section: Mapping[str, Any]) -> dict[str, Any]:
    """Adds where a Google model is called to its section, unless that says so itself."""
    if section.get("type") != "google" or "project" in section:
        return dict(section)
    return {**section, **find_place("autorater_config", "a resource name: projects/P/locations/L/publishers/...")}


def _find_region() -> str:
    return next((os.environ[name] for name in _REGIONS if os.environ.get(name)), LOCATION)


def _settings_of_the_sdk() -> tuple[str | None, str | None]:
    """Returns (project, location) as given to `vertexai.init`; `None` for what was not given."""
    module = sys.modules.get("google.cloud.aiplatform.initializer")
    given = getattr(module, "global_config", None)  # its properties would ask the environment, and the network
    return getattr(given, "_project", None), getattr(given, "_location", None)


def _require_credentials(where: str, allowed: str) -> None:
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        google.auth.default()
    except DefaultCredentialsError:
        allowed = f"{_CREDENTIALS}, or {allowed}"
        raise ConfigError("there are no Google credentials", where=where, allowed=allowed) from None
