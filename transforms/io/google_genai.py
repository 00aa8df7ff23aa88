"""Clients of google-genai, for judges and agents that are Gemini models."""

from __future__ import annotations

import re
from typing import Any

MODEL = re.compile(r"(?:projects/([^/]+)/locations/([^/]+)/)?(?:publishers/[^/]+/)?models/([^/]+)$")
"""Matches the resource name of a publisher's model; its groups are project, location and model."""


def make_client(
    *,
    project: str | None,
    location: str | None,
    vertex: bool,
    api_key: str | None = None,
    base_url: str | None = None,
    **http: Any,
) -> Any:
    """Makes a client of the Gemini API, or of Vertex AI if `project` or `vertex` is given.

    Args:
        project, location: Where Vertex AI calls the model; default: the environment's.
        vertex: True to use Vertex AI.
        api_key: The key; default: that of the environment.
        base_url: URL of another server with the same protocol.
        **http: Further options of its HTTP client.
    """
    from google import genai
    from google.genai import types

    named = {"project": project, "location": location}
    place = {"vertexai": True, **{k: v for k, v in named.items() if v is not None}} if vertex or project else {}
    return genai.Client(api_key=api_key, http_options=types.HttpOptions(base_url=base_url, **http), **place)
