"""The judge type `vertex_eval`: Vertex AI's evaluateInstances, for rapid evaluation metrics with `service: true`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.errors import JudgeError
from ...schemas.formats.rapid import read_result
from ...schemas.judging import EVALUATE_INSTANCES
from ..registry import require_module
from ..runtime.local_objects import original
from .base import Consult, Judge, Question, Reply, attach_close, register

_STARTING = frozenset(("ServiceUnavailable", "FailedPrecondition"))


class Starting(JudgeError):
    """The service is not up yet; the call is retried as after a quota error (429).

    Attributes:
        retry_after: Seconds until the next attempt.
    """

    status_code = 429

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@register("judge", "vertex_eval")
@dataclass(frozen=True)
class VertexEval(Judge):
    """Calls Vertex AI's evaluateInstances over gRPC, for rapid evaluation metrics with `service: true`.

    The service may be unavailable for some minutes after a project's first call; until it has answered once, such
    errors are retried.

    Attributes:
        project: Id or number of the billed project.
        location: Region of the service.
        endpoint: Host of the service; default: that of the region.
        startup: Seconds after the first call in which the service may be unavailable.
        pause: Seconds between attempts in that time.
        channel: Creates the gRPC channel; by default one with the application default credentials.
        clock: Returns seconds from any origin.
    """

    project: str
    location: str = "us-central1"
    endpoint: str | None = None
    startup: float = 600.0
    pause: float = 15.0
    channel: Callable[[], Any] | None = None
    clock: Callable[[], float] = time.monotonic

    speaks: ClassVar[str | None] = EVALUATE_INSTANCES
    secret: ClassVar[tuple[str, ...]] = ("endpoint", "startup", "pause", "channel", "clock")

    def __post_init__(self) -> None:
        require_module("google.cloud.aiplatform", "vertex", "a judge of type vertex_eval", "judges")

    def connect(self) -> Consult:
        from google.cloud import aiplatform_v1
        from google.protobuf import json_format

        client, clock = self._client(), original(self.clock)
        place = f"projects/{self.project}/locations/{self.location}"
        began: float | None = None
        answered = False

        def consult(question: Question) -> Reply:
            nonlocal began, answered
            body = {"location": place, **json.loads(question.turns[-1].content)}
            request = json_format.ParseDict(body, aiplatform_v1.EvaluateInstancesRequest.pb()())
            began = clock() if began is None else began
            try:
                response = client.evaluate_instances(request=request, retry=None)
            except Exception as error:
                waited = clock() - began
                if answered or waited >= self.startup or type(error).__name__ not in _STARTING:
                    raise
                raise Starting(f"the service is not up yet ({type(error).__name__})", self.pause) from error
            answered = True
            message = type(response).pb(response)
            return Reply(value=read_result(json_format.MessageToDict(message, preserving_proto_field_name=True)))

        async def close() -> None:
            client.transport.close()

        return attach_close(consult, close)

    @property
    def model_name(self) -> str:
        """The service's name."""
        return "evaluate-instances"

    def _client(self) -> Any:
        from google.cloud import aiplatform_v1

        transport = aiplatform_v1.EvaluationServiceClient.get_transport_class("grpc")
        if self.channel is not None:
            return aiplatform_v1.EvaluationServiceClient(transport=transport(channel=original(self.channel)()))
        host = self.endpoint or f"{self.location}-aiplatform.googleapis.com"
        return aiplatform_v1.EvaluationServiceClient(transport=transport(host=host))
