"""Tokens stand in no file of a run and in no message, whatever a service answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from json_server import JsonHandler, serving

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.run.publish import publish
from evalbeam.schemas.config.storage import OutputConfig

TOKEN = "hunter2-hunter2"


class _Echo(JsonHandler):
    def _refuse(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get("Authorization") or ""
        self.server.seen.append(given)  # type: ignore[attr-defined]
        self.answer({"error_code": "PERMISSION_DENIED", "message": f"{given} may not do that"}, 403)

    do_GET = do_POST = _refuse


@pytest.fixture
def echo() -> Iterator[Any]:
    """A fake of every service: it refuses requests and repeats their credentials."""
    with serving(_Echo, seen=[]) as server:
        server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield server


@pytest.mark.parametrize("sink", ["mlflow", "otel"])
def test_no_file_and_no_message_has_the_token(
    sink: str, echo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", TOKEN)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{TOKEN}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", echo.url)
    result = evaluate([{"response": "a", "reference": "a"}], ["exact_match"], output=tmp_path / "out")
    section: dict[str, Any] = {"mlflow": {"experiment": "e"}} if sink == "mlflow" else {"otel": {"endpoint": echo.url}}
    result = publish(result, OutputConfig.model_validate(section))
    assert f"Bearer {TOKEN}" in echo.seen  # the service got it
    outcome = result.manifest["sinks"][sink]
    assert (outcome["state"], outcome["attempts"]) == ("failed", 1)
    assert "may not do that" in outcome["reason"]
    said = capfd.readouterr()
    assert said.err.count("\n") == 1
    assert TOKEN not in said.err + said.out
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) >= 6
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
    assert EvaluationResult.load(tmp_path / "out").exit_code == 0
