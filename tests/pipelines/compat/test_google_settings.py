"""Where the default judge of EvalTask is called: settings of the SDK and the environment, Google's credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from json_server import JsonHandler
from json_server import serving as serve_json
from model_server import ModelServer, Said, serving

from evalbeam import AutoraterConfig, ConfigError, EvalTask, PointwiseMetric
from evalbeam.pipelines.compat import google_settings
from evalbeam.pipelines.compat.google_settings import default_judge, default_service, find_place

VARIABLES = (
    *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION", "GOOGLE_API_KEY", "GEMINI_API_KEY"),
    *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS"),
)
ROWS = pd.DataFrame({"prompt": ["one", "two"], "response": ["uno", "due"]})


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without Google's settings, on a machine that is not Google's."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "no-gcloud"))
    monkeypatch.setattr(google_settings, "_settings_of_the_sdk", lambda: (None, None))


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A service account whose tokens come from a local server."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with serve_json(_Tokens) as server:
        account = {
            "type": "service_account",
            "project_id": "other",
            "private_key_id": "1",
            "private_key": key.private_bytes(*form).decode(),
            "client_email": "judge@p.iam.gserviceaccount.com",
            "token_uri": f"http://127.0.0.1:{server.server_address[1]}/token",
        }
        (tmp_path / "account.json").write_text(json.dumps(account))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
        yield


class _Tokens(JsonHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"access_token": "token-1", "expires_in": 3600, "token_type": "Bearer"})


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A fake of Vertex AI, where google-genai looks for it by the environment."""
    with serving() as server:
        verdict = json.dumps({"explanation": "why", "score": 4})
        server.said = lambda asked: Said(verdict if asked.schema else "an answer")
        monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        yield server


def test_without_settings_the_error_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"neither a project of Google Cloud .* nor a key .* or a judge: judges="):
        EvalTask(dataset=ROWS, metrics=["fluency"]).evaluate()
    with pytest.raises(ConfigError, match="model: neither a project"):
        EvalTask(dataset=ROWS, metrics=["bleu"]).evaluate(model="gemini-2.5-flash")


def test_without_credentials_the_error_says_how_to_get_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")
    with pytest.raises(ConfigError, match=r"judges.default: there are no Google credentials \(allowed: gcloud auth"):
        EvalTask(dataset=ROWS, metrics=["fluency"]).evaluate()


def test_the_default_judge_is_asked_in_the_project_of_the_environment(
    vertex: ModelServer, credentials: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")
    monkeypatch.setenv("GOOGLE_CLOUD_REGION", "europe-west4")
    result = EvalTask(dataset=ROWS, metrics=["fluency"]).evaluate()
    assert result.summary_metrics["fluency/mean"] == 4
    assert {asked.headers["authorization"] for asked in vertex.asked} == {"Bearer token-1"}
    assert {asked.model for asked in vertex.asked} == {"gemini-2.5-flash"}
    assert result.manifest["config"]["judges"]["default"]["location"] == "europe-west4"
    said = capsys.readouterr().err
    assert "no judge is named, so gemini-2.5-flash is asked (Vertex AI, project p-1" in said
    assert "2 calls for 2 rows" in said


def test_models_and_autoraters_by_name_are_called_in_that_project(
    vertex: ModelServer, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")
    full = "projects/p-2/locations/global/publishers/google/models/gemini-2.5-pro"
    metrics = [
        PointwiseMetric(metric="fluency", autorater_config=AutoraterConfig(autorater_model="gemini-2.0-flash")),
        PointwiseMetric(metric="coherence", autorater_config=AutoraterConfig(autorater_model=full)),
    ]
    result = EvalTask(dataset=ROWS[["prompt"]], metrics=metrics).evaluate(model="gemini-2.5-flash")
    judges = result.manifest["config"]["judges"]
    assert (judges["gemini-2.0-flash"]["project"], judges["gemini-2.5-pro"]["project"]) == ("p-1", "p-2")
    assert result.manifest["config"]["agent"]["project"] == "p-1"
    assert {asked.model for asked in vertex.asked} == {"gemini-2.5-flash", "gemini-2.0-flash", "gemini-2.5-pro"}


def test_settings_of_the_sdk_come_first(credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-environment")
    monkeypatch.setattr(google_settings, "_settings_of_the_sdk", lambda: ("of-init", "asia-east1"))
    assert find_place("w", "a") == {"project": "of-init", "location": "asia-east1"}
    assert default_service() == {"type": "vertex_eval", "project": "of-init", "location": "asia-east1"}


def test_settings_are_those_of_vertexai_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    from google.cloud import aiplatform

    aiplatform.init(project="of-init", location="asia-east1")
    try:
        assert google_settings._settings_of_the_sdk() == ("of-init", "asia-east1")
    finally:
        aiplatform.initializer.global_config.__init__()
    module: Any = ModuleType("google.cloud.aiplatform.initializer")
    module.global_config = SimpleNamespace()
    monkeypatch.setitem(google_settings.sys.modules, "google.cloud.aiplatform.initializer", module)
    assert google_settings._settings_of_the_sdk() == (None, None)


def test_a_key_selects_the_gemini_api_unless_vertex_ai_is_asked_for(
    credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "fake")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p-1")
    assert default_judge() == {"type": "google", "model": "gemini-2.5-flash"}
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "True")
    assert default_judge()["project"] == "p-1"
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    with pytest.raises(ConfigError, match="the evaluation service needs a project"):
        default_service()
