"""The command `evalbeam-worker`: a Beam worker process for engines that start their workers as processes.

It needs only Beam's Python SDK and this package. `--environment_type=PROCESS` runs it from the PATH of Flink's
TaskManagers. It asks the engine for the pipeline's options and staged files, makes the files importable, and runs the
worker.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from .ending import end_with


def main() -> NoReturn:
    """The program `evalbeam-worker`: runs until the engine ends it."""
    end_with(_work)


def _work() -> int:
    args = _arguments(None)
    info = _ask_provisioning(args.provision_endpoint, args.id)
    folder = Path(args.semi_persist_dir or tempfile.mkdtemp(prefix="evalbeam-worker-"))
    staged = folder / "staged"
    staged.mkdir(parents=True, exist_ok=True)
    _fetch(info, args, staged)
    from .packages import import_from

    import_from(staged)
    _tell_beam(info, args, folder)
    return serve()


def serve() -> int:
    """Runs Beam's worker until the engine ends it or is gone; environment variables name the engine's addresses.

    After that no call begins, and the outcomes of calls in flight are dropped: they fail because this process ends.
    """
    from .beam_import import import_beam

    import_beam()
    from apache_beam.runners.worker import sdk_worker_main

    from ...transforms.calls.loop import Loop
    from .signatures import known_signatures

    try:
        with known_signatures():
            sdk_worker_main.main(sys.argv)
    finally:
        Loop.end()
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evalbeam-worker", description=__doc__)
    names = ("id", "logging_endpoint", "artifact_endpoint", "provision_endpoint", "control_endpoint")
    for name in (*names, "semi_persist_dir"):
        parser.add_argument(f"--{name}", default="", type=lambda text: text.strip("'"))  # Prism adds quotes
    return parser.parse_known_args(argv)[0]


def _ask_provisioning(endpoint: str, worker: str) -> Any:
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc

    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()  # type: ignore[attr-defined]
        return stub.GetProvisionInfo(request, metadata=[("worker_id", worker)], timeout=60).info


def _fetch(info: Any, args: argparse.Namespace, staged: Path) -> None:
    """Copies the staged files from the engine."""
    endpoint = args.artifact_endpoint or info.artifact_endpoint.url
    if not info.dependencies or not endpoint:
        return
    import grpc
    from apache_beam.portability.api import beam_artifact_api_pb2, beam_artifact_api_pb2_grpc, beam_runner_api_pb2

    with grpc.insecure_channel(endpoint) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        about = {"metadata": [("worker_id", args.id)], "timeout": 600}
        request = beam_artifact_api_pb2.ResolveArtifactsRequest(artifacts=info.dependencies)  # type: ignore[attr-defined]
        for artifact in stub.ResolveArtifacts(request, **about).replacements:
            role = beam_runner_api_pb2.ArtifactStagingToRolePayload()  # type: ignore[attr-defined]
            role.ParseFromString(artifact.role_payload)
            name = os.path.basename(role.staged_name)
            wanted = beam_artifact_api_pb2.GetArtifactRequest(artifact=artifact)  # type: ignore[attr-defined]
            with (staged / name).open("wb") as file:
                for piece in stub.GetArtifact(wanted, **about):
                    file.write(piece.data)


def _tell_beam(info: Any, args: argparse.Namespace, folder: Path) -> None:
    """Sets the environment variables that Beam's worker reads."""
    from apache_beam.portability.api import endpoints_pb2
    from google.protobuf import json_format, text_format

    def descriptor(given: str, provided: Any) -> str:
        return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=given or provided.url))  # type: ignore[attr-defined]

    os.environ |= {
        "WORKER_ID": args.id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": descriptor(args.logging_endpoint, info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": descriptor(args.control_endpoint, info.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "SEMI_PERSISTENT_DIRECTORY": str(folder),
    }


if __name__ == "__main__":
    main()
