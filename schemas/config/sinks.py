"""The sinks of a run: services that are told of a finished run, besides its folder.

None of these sections takes a secret: tokens are those of each service's own environment variables.
"""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from ..addresses import has_secret
from .part import ConfigPart


def _without_secret(value: str) -> str:
    if has_secret(value):
        raise ValueError("an address without a password or token, which the service's own variables give")
    return value


def _named(value: str) -> str:
    if not value.strip():
        raise ValueError("a name")
    return value


def _http_address(value: str) -> str:
    if not re.match(r"https?://[^/?#]", value):
        raise ValueError("an address that begins with http:// or https://")
    return value


def _vertex_id(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,127}", value):
        raise ValueError("lower-case letters, digits and -, at most 128 of them")
    return value


Name: TypeAlias = Annotated[str, AfterValidator(_named)]
"""A name that is not empty."""
Address: TypeAlias = Annotated[str, AfterValidator(_named), AfterValidator(_without_secret)]
"""The address of a service, without credentials."""


class MlflowConfig(ConfigPart):
    """A run of MLflow that shows a finished run. Tokens are MLflow's own variables (MLFLOW_TRACKING_TOKEN ...).

    Attributes:
        tracking_uri: Address of the tracking server; default: the variable MLFLOW_TRACKING_URI.
        experiment: Name of the experiment, which is made if there is none.
        run_name: Name of the run there; default: the last part of `output.path`.
        max_traces: Maximum number of rows that are sent as traces, failures first.
    """

    tracking_uri: Address | None = None
    experiment: Name
    run_name: str = ""
    max_traces: int = Field(default=1000, ge=0)


class OtelConfig(ConfigPart):
    """An OpenTelemetry collector that gets the metrics of a finished run, by OTLP over HTTP; `true` for the default.

    Attributes:
        endpoint: Base address of the collector; default: the variable OTEL_EXPORTER_OTLP_ENDPOINT, else
            http://localhost:4318. Headers come from OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: Annotated[Address, AfterValidator(_http_address)] | None = None


class VertexExperimentConfig(ConfigPart):
    """A run of a Vertex AI experiment that shows a finished run; needs Google's credentials.

    Attributes:
        project: Project of Google Cloud.
        location: Location of the experiment.
        experiment: Name of the experiment, which is made if there is none.
        run_name: Name of the run there; default: made of `output.path`.
    """

    project: Name
    location: Name = "us-central1"
    experiment: Annotated[str, AfterValidator(_vertex_id)]
    run_name: Annotated[str, AfterValidator(_vertex_id)] | None = None
