"""The local engine with worker processes: one that dies ends the run at once, and none outlives the run.

Beam's own handler of worker processes waits for ever for one that dies before it has connected, and leaves them running
where this process is killed. Here each has a pipe that ends with this process (`local_worker`), and a thread that sees
it end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
from . import local_worker

START = 300.0
"""Seconds within which a worker process connects, or never: it imports Beam first, on a busy machine for long."""
GRACE = 10.0
"""Seconds a worker process has to end by itself once it is told to: its libraries may have to send something off."""
_URN = "evalbeam:env:local_worker:v1"
_POLL = 0.5


class LocalEngine(FnApiRunner):
    """Beam's in-process engine, whose worker processes are watched."""

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        """Runs a pipeline.

        Raises:
            RunError: A worker process has ended before it was told to.
        """
        with _workers() as (token, workers):
            for environment in pipeline_proto.components.environments.values():
                if environment.urn == python_urns.SUBPROCESS_SDK:
                    environment.urn, environment.payload = _URN, token
            try:
                return super().run_via_runner_api(pipeline_proto, options)
            except Exception as error:
                if workers.death is not None:
                    raise RunError(f"{workers.death}; the same command goes on") from error
                raise


class _Workers:
    """The worker processes of a run.

    Attributes:
        logging: Address where they send their logs.
        death: Why the first has ended that should not have.
    """

    def __init__(self, logging: str) -> None:
        self.logging, self.death = logging, None
        self._handlers: list[_Handler] = []
        self._lock = threading.Lock()

    def add(self, handler: _Handler) -> None:
        """Takes one in."""
        with self._lock:
            self._handlers.append(handler)
        if self.death is not None:
            handler.control_conn.end(self.death)

    def died(self, why: str) -> None:
        """Ends the run: also what others are asked for fails, for the engine looks at them one after the other."""
        with self._lock:
            self.death = self.death or why
            handlers = list(self._handlers)
        for handler in handlers:
            handler.control_conn.end(self.death)


_RUNS: dict[bytes, _Workers] = {}


@contextmanager
def _workers() -> Iterator[tuple[bytes, _Workers]]:
    """The workers of a run, and the token by which their handlers find them."""
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
    """The control connection to a worker. Once the worker has ended, all that it is or was asked for has failed.

    Args:
        connection: Beam's.
    """

    def __init__(self, connection: Any) -> None:
        self._connection, self._why = connection, ""

    @property
    def connected(self) -> bool:
        """Whether the worker has ever come."""
        return self._connection._state != BeamFnControlServicer.UNSTARTED_STATE

    def push(self, request: Any) -> Any:
        """Asks for something."""
        future = self._connection.push(request)
        if self._why and future is not None:  # looked at after the request is on the list that `end` goes through
            self._fail(future)
        return future

    def end(self, why: str) -> None:
        """Says that the worker has ended."""
        self._why = why
        for future in list(self._connection._futures_by_id.values()):
            self._fail(future)

    def close(self) -> None:
        """Tells the worker to end."""
        self._connection.close()

    def _fail(self, future: Any) -> None:
        future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=future.instruction_id, error=self._why))


class _Handler(GrpcWorkerHandler):
    """One worker process, as Beam's engine handles it."""

    control_conn: Any

    def __init__(self, token: bytes, state: Any, provision_info: Any, grpc_server: Any) -> None:
        super().__init__(state, provision_info, grpc_server)
        self.control_conn = _Control(self.control_conn)
        self._workers = _RUNS[token]
        self._told = self._killed = False
        self._over = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
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
        command = [sys.executable, "-m", local_worker.__name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        self._workers.add(self)
        self._watcher.start()

    def close(self) -> None:
        """Has the process end, and waits for that."""
        self._told = True
        killer = threading.Timer(GRACE if self.control_conn.connected else 0.0, self._kill)
        killer.start()
        try:
            super().close()  # raises where the worker is gone already
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
        """Takes what is still sent to the worker, for the engine may wait until there is room for it."""
        queue, last = self.data_conn._to_send, self.data_conn._WRITES_FINISHED
        while not self._over.is_set():
            with suppress(Empty):
                if queue.get(timeout=_POLL) is last:
                    queue.put(last, 0)  # the thread that sent to the worker ends with it
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
