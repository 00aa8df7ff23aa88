"""A fake of Vertex AI's evaluation service behind real gRPC on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.cloud import aiplatform_v1

REQUEST = aiplatform_v1.EvaluateInstancesRequest
RESPONSE = aiplatform_v1.EvaluateInstancesResponse
METHOD = "EvaluateInstances"


@dataclass
class Service:
    """A fake service: it refuses its first calls, then answers what it is told to."""

    refusals: list[grpc.StatusCode] = field(default_factory=list)
    score: float = 4.0
    asked: list[Any] = field(default_factory=list)
    address: str = ""

    def evaluate(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self.refusals:
            context.abort(self.refusals.pop(0), "not there")
        self.asked.append(request)
        name = REQUEST.pb(request).WhichOneof("metric_inputs").removesuffix("_input")
        verdict = {"score": self.score} if "pairwise" not in name else {"pairwise_choice": "CANDIDATE"}
        if name in ("comet", "metricx"):
            return RESPONSE({f"{name}_result": verdict})
        return RESPONSE({f"{name}_result": {**verdict, "explanation": "as the service says", "confidence": 0.75}})


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    method = grpc.unary_unary_rpc_method_handler(service.evaluate, REQUEST.deserialize, RESPONSE.serialize)
    server = grpc.server(ThreadPoolExecutor(4))
    name = "google.cloud.aiplatform.v1.EvaluationService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {METHOD: method}),))
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield service
    finally:
        server.stop(None).wait()
