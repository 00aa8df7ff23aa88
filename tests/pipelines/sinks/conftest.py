"""A finished run that every sink is told of, and a fake of Vertex AI's metadata service for the real SDK."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import grpc
import metadata_service
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1.services.metadata_service.transports import MetadataServiceGrpcTransport

from evalbeam import EvaluationResult, evaluate
from evalbeam.pipelines.run.tables import pick_rows, rows_of, summary_rows
from evalbeam.pipelines.sinks.base import FinishedRun

ROWS: list[dict[str, Any]] = [
    {
        "prompt": f"question {i}",
        "reference": "yes",
        "response": "no" if i % 4 == 0 else "yes",
        "group": "ab"[i % 2],
        "latency_in_seconds": i / 100,
        "failure": i == 5,
        "reference_trajectory": [{"tool_name": "open", "tool_input": {"door": "front"}}],
        "predicted_trajectory": [{"tool_name": "open", "tool_input": {"door": "back" if i % 2 else "front"}}],
    }
    for i in range(12)
]
METRICS = ["exact_match", "rouge_l", "trajectory_exact_match"]


def view(result: EvaluationResult, run_id: str = "run-1") -> FinishedRun:
    """The run as sinks see it."""
    return FinishedRun(
        run_id,
        result.output,
        result.manifest,
        summary_rows(result),
        lambda columns: rows_of(result, "instances", columns),
        lambda positions: pick_rows(result, positions),
    )


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> EvaluationResult:
    """A run with a failed call, wrong answers, criteria and slices."""
    folder = tmp_path_factory.mktemp("sinks")
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    bounds = {"exact_match": 0.5}
    given: dict[str, Any] = {"criteria": bounds, "slices": [["group"]]}
    return evaluate(str(folder / "rows.jsonl"), METRICS, output=folder / "out", **given)


@pytest.fixture
def run(result: EvaluationResult) -> FinishedRun:
    """The same run as sinks see it."""
    return view(result)


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[metadata_service.Metadata]:
    """The service behind the SDK's own client, whose channel goes to the loopback."""
    import google.auth

    monkeypatch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), "p-1"))
    with metadata_service.serving(metadata_service.Metadata()) as held:

        def create_channel(*_: Any, **__: Any) -> grpc.Channel:
            return grpc.insecure_channel(held.address)

        monkeypatch.setattr(MetadataServiceGrpcTransport, "create_channel", create_channel)
        yield held
    assert "google.cloud.aiplatform" in sys.modules
