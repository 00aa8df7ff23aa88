"""Commands and scripts of the documentation in processes that have evalbeam imported already.

A command of a reader imports Beam and pandas for three seconds before it does anything. Here one process imports them
once and forks for each command, so that all pages together run in seconds. What a reader types is run by bash as it
stands: `evalbeam` and `python` on the PATH are small clients, which hand their arguments, folder, environment and open
files over to that process and end with the exit code of the command.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

_CLIENT = """\
#!{python} -IS
import json, os, socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect({address!r})
message = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(client, [len(message).to_bytes(4, "big")], [0, 1, 2])
client.sendall(message)
sys.exit((client.recv(1) or b"\\xff")[0])
"""


@contextmanager
def warm_commands(folder: Path) -> Iterator[dict[str, str]]:
    """Starts the process; gives the environment in which `evalbeam` and `python` are its clients.

    Args:
        folder: Where its socket and clients go.
    """
    address = str(folder / "socket")
    for name in ("evalbeam", "python"):
        client = folder / name
        client.write_text(_CLIENT.format(python=sys.executable, address=address, name=name))
        client.chmod(0o755)
    with subprocess.Popen([sys.executable, __file__, address], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline(), "the process did not start"
            yield {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        finally:
            server.kill()


def _serve(address: str) -> NoReturn:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    _import_all()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is forked
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            client.sendall(bytes([_answer(client)]))
            os._exit(0)
        client.close()


def _import_all() -> None:
    import evalbeam
    from evalbeam.transforms import registry

    for kind in registry.FOLDERS:
        registry.names(kind)
    for name in evalbeam.__all__:
        getattr(evalbeam, name)
    for name in ("check.check", "cli.main", "display.terminal", "report.page"):
        importlib.import_module(f"evalbeam.pipelines.{name}")


def _answer(client: socket.socket) -> int:
    """Does what a client asks in its place; returns the exit code."""
    size, files, _, _ = socket.recv_fds(client, 4, 3)
    message = b""
    while len(message) < int.from_bytes(size, "big"):
        message += client.recv(1 << 16)
    name, argv, folder, environment = json.loads(message)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    sys.argv = [name, *argv]
    try:
        return _run(name, argv)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _run(name: str, argv: list[str]) -> int:
    if name == "evalbeam":
        from evalbeam.pipelines.cli.main import main

        return main(argv)
    if argv[0] == "-c":
        code = compile(argv[1], "<string>", "exec")
    else:
        assert argv[0].endswith(".py"), "of python only `-c` and files are there"
        code = compile(Path(argv[0]).read_text(), argv[0], "exec")
    script = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(code, script.__dict__)
    except SystemExit as stop:
        return int(stop.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
