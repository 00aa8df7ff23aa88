"""Fakes of Google's models and of its evaluation service, where EvalTask looks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from evaluation_service import Service
from evaluation_service import serving as serve_service
from model_server import Asked, ModelServer, Said, serving

from evalbeam.pipelines.compat import autoraters, google_settings


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModelServer]:
    """A fake of the Gemini API, where google-genai looks for it by the environment."""
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_GENAI_USE_VERTEXAI", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(google_settings, "_settings_of_the_sdk", lambda: (None, None))
    monkeypatch.chdir(tmp_path)
    with serving() as server:
        server.said = answer
        monkeypatch.setenv("GOOGLE_API_KEY", "fake")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A fake of the evaluation service, in place of Google's."""
    with serve_service(Service(score=0.75)) as service:
        section = {"type": "vertex_eval", "project": "p", "channel": partial(grpc.insecure_channel, service.address)}
        monkeypatch.setattr(autoraters, "default_service", lambda: section)
        yield service


def answer(asked: Asked) -> Said:
    """An answer of the requested schema, or a text: as a judge in a notebook writes it, or as a model answers."""
    if asked.schema is not None:
        return Said(json.dumps(fill(asked.schema, asked.user)))
    whole = asked.system + asked.user
    if "Write questions" in whole:
        return Said("<question>Is it short?</question><question>Is it kind?</question>")
    if "Write JSON" in whole:
        return Said('```json\n{"questions": ["Is it short?", "Is it kind?"]}\n```')
    if "Give verdicts" in whole:
        blocks = [("short", "YES"), ("kind", "NO")]
        return Said("\n".join(f"<question>\nQuestion: Is it {q}?\nVerdict: [[{v}]]\n</question>" for q, v in blocks))
    if "Answer questions" in whole:
        return Said("Verdict: YES\nVerdict: NO")
    if "Write an object" in whole:
        return Said('```json\n{"valid": "yes", "why": "because"}\n```')
    if "Label sentences" in whole:
        return Said('```json\n[{"label": "supported"}, {"label": "unsupported"}]\n```')
    return Said(f"{asked.model} answers")


def fill(schema: dict[str, Any], user: str) -> Any:
    """A value of a schema; lists of verdicts have as many as the question lists properties."""
    kind = schema["type"]
    if "enum" in schema:
        return schema["enum"][1 if schema["enum"][0] == "A" else 0]
    if kind == "array":
        items = schema["items"]
        if items["type"] == "string":
            return ["It is short.", "It is kind."]
        numbers = re.findall(r"^(\d+)\. ", user, flags=re.M)
        return [{**fill(items, user), "number": int(number)} for number in numbers]
    if kind == "object":
        return {name: fill(inner, user) for name, inner in schema["properties"].items()}
    return {"string": "because", "boolean": True, "integer": 1, "number": 1}[kind]
