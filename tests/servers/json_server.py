"""Servers on loopback, in threads of the test's own process; a handler of JSON to derive from."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class JsonHandler(BaseHTTPRequestHandler):
    """Reads and answers JSON, a connection for each request, and logs nothing."""

    def body(self) -> Any:
        """What the request carries; `None` where that is nothing."""
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")

    def answer(self, value: Any, status: int = 200) -> None:
        """Sends the answer."""
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler], **attributes: Any) -> Iterator[ThreadingHTTPServer]:
    """A server that runs until the block ends; the handler finds the attributes at its `server`."""
    server = _Quiet(("127.0.0.1", 0), handler)
    for name, value in attributes.items():
        setattr(server, name, value)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is what some tests are about."""
