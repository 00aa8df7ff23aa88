"""The local engine with worker processes: a worker that dies ends the run at once, and none outlives the run.

Beam's own handler of worker processes waits for ever for a worker that dies before it connects, and leaves workers
running if this process is killed. Here each worker has a pipe that closes with this process (`local_worker`), and a
thread that waits for its end.

Private API of Beam in use; `tests/pipelines/runners/test_killed_workers.py` fails if it changes:

- `GrpcWorkerHandler` and `BeamFnControlServicer` of `fn_api_runner.worker_handlers`: base class of our handler, and
  states of a connection. If they move, the import of this module fails.
- `ControlConnection._state` and `._futures_by_id`: whether a worker has connected, and its open requests. Without them
  the open requests of a dead worker would not fail, and the run would hang.
- `_to_send` and `_WRITES_FINISHED` of a gRPC data channel: the queue to a worker and its end marker. Without them a run
  with a dead worker would hang once the queue is full.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty
from typing import Any

import grpc
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.worker_handlers import BeamFnControlServicer, GrpcWorkerHandler
from apache_beam.runners.portability.local_job_service import BeamFnLoggingServicer
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance
from google.protobuf import json_format, text_format

from ...schemas.errors import RunError
from .workers import Forked, start_worker

START = 300.0
"""Seconds for a worker process to connect: it imports Beam first, which takes long on a busy machine."""
GRACE = 10.0
"""Seconds for a worker process to end by itself when told to: its libraries may have data to send."""
_URN = "evalbeam:env:local_worker:v1"
_POLL = 0.5


class LocalEngine(FnApiRunner):
    """Beam's in-process engine with supervised worker processes."""

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        """Runs a pipeline.

        Raises:
            RunError: A worker process ended before it was told to.
        """
        with _workers() as (token, workers):
            for environment in pipeline_proto.components.environments.values():
                if environment.urn == python_urns.SUBPROCESS_SDK:
                    environment.urn, environment.payload = _URN, token
            try:
                return super().run_via_runner_api(pipeline_proto, options)
            except Exception as error:
                if workers.death is not None:
                    raise RunError(f"{workers.death}; run the same command again to resume") from error
                raise


class _Workers:
    """The worker processes of a run.

    Attributes:
        logging: Address to which they send their logs.
        death: Why the first one ended unexpectedly; `None` if none did.
    """

    def __init__(self, logging: str) -> None:
        self.logging, self.death = logging, None
        self._handlers: list[_Handler] = []
        self._lock = threading.Lock()

    def add(self, handler: _Handler) -> None:
        """Adds a worker process."""
        with self._lock:
            self._handlers.append(handler)
        if self.death is not None:
            handler.control_conn.end(self.death)

    def died(self, why: str) -> None:
        """Ends the run. Requests to all workers fail, since the engine waits for the workers one after another."""
        with self._lock:
            self.death = self.death or why
            handlers = list(self._handlers)
        for handler in handlers:
            handler.control_conn.end(self.death)


_RUNS: dict[bytes, _Workers] = {}


@contextmanager
def _workers() -> Iterator[tuple[bytes, _Workers]]:
    """Yields the workers of a run, and the token by which their handlers find them."""
    threads: Any = shared_unbounded_instance()
    server = grpc.server(threads)
    port = server.add_insecure_port("localhost:0")
    beam_fn_api_pb2_grpc.add_BeamFnLoggingServicer_to_server(BeamFnLoggingServicer(), server)
    server.start()
    token = uuid.uuid4().bytes
    _RUNS[token] = _Workers(f"localhost:{port}")
    try:
        yield token, _RUNS[token]
    finally:
        del _RUNS[token]
        server.stop(0)


class _Control:
    """The control connection to a worker. When the worker has ended, all open and all further requests fail.

    Args:
        connection: Beam's connection.
    """

    def __init__(self, connection: Any) -> None:
        self._connection, self._why = connection, ""

    @property
    def connected(self) -> bool:
        """Whether the worker has connected."""
        return self._connection._state != BeamFnControlServicer.UNSTARTED_STATE

    def push(self, request: Any) -> Any:
        """Sends a request."""
        future = self._connection.push(request)
        # Read after `push` has listed the request; `end` writes it before it goes through the list.
        if self._why and future is not None:
            self._fail(future)
        return future

    def end(self, why: str) -> None:
        """Fails all requests, since the worker has ended."""
        self._why = why
        for future in list(self._connection._futures_by_id.values()):
            self._fail(future)

    def close(self) -> None:
        """Tells the worker to end."""
        self._connection.close()

    def _fail(self, future: Any) -> None:
        future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=future.instruction_id, error=self._why))


class _Handler(GrpcWorkerHandler):
    """Handles one worker process for Beam's engine."""

    control_conn: Any

    def __init__(self, token: bytes, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        self.control_conn = _Control(self.control_conn)
        self._workers = _RUNS[token]
        self._told = self._killed = False
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._watcher = threading.Thread(target=self._watch, name="evalbeam-worker", daemon=True)

    def start_worker(self) -> None:
        """Starts the process."""
        info = self.provision_info.provision_info
        environment = {
            **os.environ,
            "CONTROL_API_SERVICE_DESCRIPTOR": _descriptor(self.control_address),
            "LOGGING_API_SERVICE_DESCRIPTOR": _descriptor(self._workers.logging),
            "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
            "WORKER_ID": self.worker_id,
        }
        self._process = start_worker(environment)
        self._workers.add(self)
        self._watcher.start()

    def close(self) -> None:
        """Tells the process to end, and waits for its end."""
        self._told = True
        killer = threading.Timer(GRACE if self.control_conn.connected else 0.0, self._kill)
        killer.start()
        try:
            super().close()  # raises if the worker has ended already
        finally:
            self.stop_worker()
            killer.cancel()

    def stop_worker(self) -> None:
        """Waits for the end of the process."""
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._killed = True
            self._process.kill()

    def _watch(self) -> None:
        """Waits for the end of the process, on a thread of its own."""
        process = self._process
        assert process is not None
        late = False
        try:
            process.wait(START)
        except subprocess.TimeoutExpired:
            late = not self.control_conn.connected
            if late:
                self._kill()
        code = process.wait()
        if late:
            self._workers.died(f"worker process {process.pid} did not begin within {START:g} seconds")
        elif not self._told or (code < 0 and not self._killed):
            self._workers.died(f"worker process {process.pid} {_end(code)}")
        self._drain()

    def _drain(self) -> None:
        """Drops data that is still sent to the worker, since the engine may wait for room in the queue."""
        queue, last = self.data_conn._to_send, self.data_conn._WRITES_FINISHED
        while not self._over.is_set():
            with suppress(Empty):
                if queue.get(timeout=_POLL) is last:
                    queue.put(last, 0)  # the sending thread of the worker ends at this marker
                    return


GrpcWorkerHandler.register_environment(_URN, bytes)(_Handler)


def _descriptor(address: str) -> str:
    return text_format.MessageToString(endpoints_pb2.ApiServiceDescriptor(url=address))  # type: ignore[attr-defined]


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
