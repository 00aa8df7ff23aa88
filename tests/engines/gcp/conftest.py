"""Cloud Storage and BigQuery on loopback: real servers of their protocols, credentials from a service-account file."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from json_server import JsonHandler, serving

PROJECT = "test-project"
BUCKET = "evalbeam"
HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@pytest.fixture(scope="session")
def installed() -> Path:
    """Folder of the installed servers."""
    folder = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "gcp"
    if not (folder / "gcs" / "built").exists():
        pytest.skip("the test servers of Google Cloud are not installed (make test-engines installs them)")
    return folder


# ---------------------------------------------------------------------------------------------------- servers


class _Tokens(JsonHandler):
    """The token endpoint that the service-account file names."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.answer({"access_token": "token", "expires_in": 3600, "token_type": "Bearer"})


@dataclass
class Proxy:
    """What stands before a server, and fails a share of the requests.

    Attributes:
        port: Of the proxy.
        share: Share of requests that fail, in [0, 1].
        only: Pattern of the "METHOD /path" that may fail.
        kinds: How they fail: "500", "503", "reset" (before the server saw the request), "lost" (after it did).
        failed: Failures by kind.
        seen: Requests.
        witness: Is told of each failure before the client is.
        jobs: Ids of the jobs of BigQuery that were begun: as documented, a second one of an id is refused with 409,
            which the server behind does not do.
    """

    port: int = 0
    share: float = 0.0
    only: str = ""
    kinds: tuple[str, ...] = ("500", "503", "reset", "lost")
    failed: dict[str, int] = field(default_factory=dict)
    witness: Callable[[], None] = lambda: None
    jobs: set[str] = field(default_factory=set)
    seen: list[str] = field(default_factory=list)
    backend: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(20240330))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where clients go."""
        return f"http://127.0.0.1:{self.port}"

    def fate(self, request: str) -> str | None:
        """How this request fails, if it does."""
        with self.lock:
            self.seen.append(request)
            if self.dice.random() >= self.share or not re.search(self.only, request):
                return None
            kind = self.dice.choice(self.kinds)
            self.failed[kind] = self.failed.get(kind, 0) + 1
            return kind

    @contextlib.contextmanager
    def failing(self, share: float, only: str = "", kinds: tuple[str, ...] = kinds) -> Iterator[dict[str, int]]:
        """Fails this share of the requests meanwhile; gives the failures."""
        self.share, self.only, self.kinds, self.failed = share, only, kinds, {}
        try:
            yield self.failed
        finally:
            self.share, self.witness = 0.0, lambda: None

    def begun(self, job: str) -> bool:
        """Whether a job of this id was begun before; it is, from now on."""
        with self.lock:
            before = job in self.jobs
            self.jobs.add(job)
            return bool(job) and before


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _forward(self) -> None:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        body = self._body()
        job = job_id(body) if self.command == "POST" and self.path.partition("?")[0].endswith("/jobs") else ""
        fate = proxy.fate(f"{self.command} {self.path} {job}".rstrip())
        if fate == "reset":
            proxy.witness()
            return self._reset()
        if fate in ("500", "503"):
            return self._answer(int(fate), [], b'{"error": {"code": %b, "message": "injected"}}' % fate.encode())
        if proxy.begun(job):
            answer = {"code": 409, "message": f"Already Exists: Job {job}", "errors": [{"reason": "duplicate"}]}
            return self._answer(409, [("Content-Type", "application/json")], json.dumps({"error": answer}).encode())
        backend = http.client.HTTPConnection("127.0.0.1", proxy.backend, timeout=120)
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
            backend.request(self.command, self.path, body, headers | {"Content-Length": str(len(body))})
            response = backend.getresponse()
            data = response.read()
        finally:
            backend.close()
        if fate == "lost":
            proxy.witness()
            return self._reset()
        return self._answer(response.status, response.getheaders(), data, response.getheader("Content-Length"))

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, length: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _forward

    def log_message(self, format: str, *args: Any) -> None:
        pass


def job_id(body: bytes) -> str:
    """Id of the job of BigQuery that a request begins."""
    return json.loads(body).get("jobReference", {}).get("jobId", "")


@contextlib.contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Ends a process, whatever happens."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout:
            process.stdout.close()


# ---------------------------------------------------------------------------------------------------- the cloud


@dataclass(frozen=True)
class Cloud:
    """Cloud Storage on loopback.

    Attributes:
        root: Folder in which the server keeps `<bucket>/<object>`.
        gcs: Proxy before it.
        environment: Variables by which all of Google's clients find it.
    """

    root: Path
    gcs: Proxy
    environment: dict[str, str]

    def url(self, *names: str) -> str:
        """gs:// path of an object."""
        return "/".join((f"gs://{BUCKET}", *names))

    def file(self, *names: str) -> Path:
        """Where the server keeps an object."""
        return self.root.joinpath(BUCKET, *names)

    def put(self, path: str, data: bytes) -> str:
        """Uploads an object with Google's own client; gives its gs:// path."""
        from google.cloud import storage

        with contextlib.closing(storage.Client()) as client:
            client.bucket(BUCKET).blob(path).upload_from_string(data)
        return self.url(path)

    def evalbeam(self, *arguments: str, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
        """Runs the command in a process of its own."""
        command = [sys.executable, "-m", "evalbeam", *arguments]
        env = {**os.environ, **self.environment, "PYTHONPATH": str(cwd), **more.pop("env", {})}
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240, **more)


@pytest.fixture(scope="session")
def service_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A service-account file with a key of its own, whose token endpoint is on loopback."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    plain = serialization.NoEncryption()
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
    with serving(_Tokens) as server:
        account = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "0",
            "private_key": pem,
            "client_email": f"tests@{PROJECT}.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        }
        path = tmp_path_factory.mktemp("credentials") / "account.json"
        path.write_text(json.dumps(account))
        yield path


@pytest.fixture(scope="session")
def cloud(installed: Path, service_account: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Cloud Storage behind a proxy; this process's clients find it too."""
    root = tmp_path_factory.mktemp("gcs")
    proxy = Proxy()
    with serving(_Forward, proxy=proxy) as server:
        proxy.port = server.server_port
        command = [str(installed / "gcs" / "server"), f"-public=127.0.0.1:{proxy.port}", f"-root={root}"]
        with ended(subprocess.Popen([*command, f"-bucket={BUCKET}"], stdout=subprocess.PIPE, text=True)) as process:
            assert process.stdout is not None
            proxy.backend = int(process.stdout.readline().rpartition(":")[2])
            environment = {
                "STORAGE_EMULATOR_HOST": proxy.url,
                "GOOGLE_APPLICATION_CREDENTIALS": str(service_account),
                "GOOGLE_CLOUD_PROJECT": PROJECT,
                "HTTPS_PROXY": "http://127.0.0.1:9",  # nobody listens: what is not here is not asked elsewhere
                "NO_PROXY": "127.0.0.1,localhost",
                "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # would ask a server of Google's own
            }
            with pytest.MonkeyPatch.context() as patch:
                for name, value in environment.items():
                    patch.setenv(name, value)
                yield Cloud(root, proxy, environment)


@dataclass(frozen=True)
class Warehouse:
    """BigQuery on loopback, which loads what lies in the Cloud Storage beside it.

    Attributes:
        client: Google's own client of it.
        rest: Proxy before its tables and jobs.
        dataset: "project.dataset" for the tests.
    """

    client: Any
    rest: Proxy
    dataset: str

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Result of a query, in which `{d}` is the dataset."""
        return [dict(row) for row in self.client.query(sql.replace("{d}", self.dataset)).result()]


@pytest.fixture(scope="session")
def warehouse(installed: Path, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """BigQuery behind a proxy; this process's clients find it too."""
    from google.cloud import bigquery

    home, proxy, rest, grpc = installed / "bigquery", Proxy(), free_port(), free_port()
    with serving(_Forward, proxy=proxy) as server:
        proxy.port, proxy.backend = server.server_port, rest
        command = [str(home / "bin" / "bqemulator"), "start", "--project", PROJECT]
        command += ["--rest-port", str(rest), "--grpc-port", str(grpc), "--log-level", "error"]
        own = {"HOME": str(home / "home"), "BQEMU_GCS_LOCAL_ROOT": str(cloud.root)}
        own |= {"BQEMU_ENABLE_FORMAT_EXTENSIONS": "false"}
        log = (tmp_path_factory.mktemp("bigquery") / "log").open("wb")
        started = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)
        with log, ended(started) as process, pytest.MonkeyPatch.context() as patch:
            for port in (rest, grpc):
                wait_for(port, process)
            environment = {
                "BIGQUERY_EMULATOR_HOST": proxy.url,
                "BIGQUERY_STORAGE_EMULATOR_HOST": f"127.0.0.1:{grpc}",
            }
            cloud.environment.update(environment)
            for name, value in environment.items():
                patch.setenv(name, value)
            with contextlib.closing(bigquery.Client()) as client:
                client.create_dataset("tests")
                yield Warehouse(client, proxy, f"{PROJECT}.tests")


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    """Returns once somebody listens at a port of loopback."""
    for _ in range(600):
        assert process.poll() is None, "the server ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"nobody listens at {port}")
