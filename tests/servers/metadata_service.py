"""A fake of Vertex AI's metadata service, which keeps experiments, behind real gRPC on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.cloud import aiplatform_v1 as api

SERVICE = "google.cloud.aiplatform.v1.MetadataService"


@dataclass
class Metadata:
    """What the service holds.

    Attributes:
        contexts: Experiments and their runs by resource name.
        children: Names of the runs of each experiment.
        refusals: Statuses with which the next requests end.
        asked: Methods in the order of the requests.
    """

    contexts: dict[str, api.Context] = field(default_factory=dict)
    children: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[grpc.StatusCode] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def get_metadata_store(self, request: Any, context: grpc.ServicerContext) -> Any:
        return api.MetadataStore(name=request.name)

    def get_context(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.name not in self.contexts:
            context.abort(grpc.StatusCode.NOT_FOUND, request.name)
        return self.contexts[request.name]

    def create_context(self, request: Any, context: grpc.ServicerContext) -> Any:
        name = f"{request.parent}/contexts/{request.context_id}"
        if name in self.contexts:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, name)
        self.contexts[name] = api.Context(request.context, name=name)
        return self.contexts[name]

    def update_context(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.contexts[request.context.name] = request.context
        return request.context

    def add_context_children(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.children.setdefault(request.context, []).extend(request.child_contexts)
        return api.AddContextChildrenResponse()

    def get_execution(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.NOT_FOUND, request.name)

    def get_artifact(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.NOT_FOUND, request.name)


_METHODS: dict[str, tuple[str, Any, Any]] = {
    "GetMetadataStore": ("get_metadata_store", api.GetMetadataStoreRequest, api.MetadataStore),
    "GetContext": ("get_context", api.GetContextRequest, api.Context),
    "CreateContext": ("create_context", api.CreateContextRequest, api.Context),
    "UpdateContext": ("update_context", api.UpdateContextRequest, api.Context),
    "AddContextChildren": ("add_context_children", api.AddContextChildrenRequest, api.AddContextChildrenResponse),
    "GetExecution": ("get_execution", api.GetExecutionRequest, api.Execution),
    "GetArtifact": ("get_artifact", api.GetArtifactRequest, api.Artifact),
}


@contextmanager
def serving(held: Metadata) -> Iterator[Metadata]:
    """Serves until the block ends."""

    def handler(method: str, name: str, asks: Any, says: Any) -> Any:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            held.asked.append(method)
            if held.refusals:
                context.abort(held.refusals.pop(0), "refused")
            return getattr(held, name)(request, context)

        return grpc.unary_unary_rpc_method_handler(answer, asks.deserialize, says.serialize)

    methods = {method: handler(method, *rest) for method, rest in _METHODS.items()}
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    held.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield held
    finally:
        server.stop(None).wait()
