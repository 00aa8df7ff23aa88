"""A real tracking server of MLflow on the loopback, with a database of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def installed() -> Path:
    """Folder of the installed server."""
    folder = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "mlflow"
    if not (folder / "installed").exists():
        pytest.skip("MLflow's server is not installed (make test-engines installs it)")
    return folder / "venv" / "bin"


@pytest.fixture(scope="session")
def server(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of `mlflow server` on SQLite, whose artifacts go through it."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--backend-store-uri sqlite:///{folder}/mlflow.db --artifacts-destination {folder}/artifacts --workers 1"
    command = [str(installed / "mlflow"), "server", *options.split(), "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"}
    env.pop("PYTHONPATH", None)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its data is thrown away, and asked to end it waits for its workers
        process.wait()


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a server answers."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise TimeoutError(log.read_text())


@pytest.fixture
def look(tmp_path: Path) -> Callable[[str], str]:
    """Returns a function that opens an address in a real browser and returns its document once it is drawn."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags += f" --disable-component-update --disable-sync --user-data-dir={tmp_path / 'profile'} --dump-dom"

    def open_page(address: str) -> str:
        command = [browser, *flags.split(), "--window-size=1600,1200", "--virtual-time-budget=40000", address]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout

    return open_page
