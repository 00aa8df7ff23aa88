"""The web server of `evalbeam view`: on this machine alone, for who has the token of the address."""

from __future__ import annotations

import secrets
import select
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson

from ...schemas.errors import ConfigError, EvalbeamError
from ..display.console import note
from .query import Superseded
from .site import Site

HOST = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ViewServer(ThreadingHTTPServer):
    """Serves a site under a random token.

    Attributes:
        site: What it shows.
        token: First part of all paths.
    """

    daemon_threads = True  # a search that still runs does not hold the end up

    def __init__(self, site: Site, port: int = 0) -> None:
        """Listens; 0 takes any free port.

        Raises:
            ConfigError: The port is taken, or may not be used.
        """
        self.site, self.token = site, secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"cannot listen on port {port}: {error}", where="--port", allowed="a free port") from None

    @property
    def address(self) -> str:
        """What a browser opens."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may name as its host: a page of another site, whose name leads here, names that site."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Notes an error; a browser that left is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            note(f"a request failed: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # of a connection on which nothing is asked

    def do_GET(self) -> None:
        """Answers a request."""
        try:
            status, kind, body = self._answer()
        except ConfigError as error:
            status, kind, body = HTTPStatus.BAD_REQUEST, "text/plain", str(error).encode("utf-8", "replace")
        except Superseded:
            self.close_connection = True
            return
        except Exception as error:
            note(f"a request failed: {type(error).__name__}: {error}")
            told = str(error) if isinstance(error, EvalbeamError) else f"internal error: {type(error).__name__}"
            status, kind, body = HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", told.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8", "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self) -> tuple[HTTPStatus, str, bytes]:
        """Returns status, type and bytes of the answer."""
        server: Any = self.server
        if self.headers.get_all("Host", []) not in ([host] for host in server.hosts):
            return HTTPStatus.FORBIDDEN, "text/plain", b"another host is asked for"
        asked = urlsplit(self.path)
        token, slash, path = asked.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), server.token.encode()) or not slash:
            return HTTPStatus.FORBIDDEN, "text/plain", b"the address has no valid token: open the one that was printed"
        given = parse_qs(asked.query, keep_blank_values=True, max_num_fields=10_000)
        found = server.site.answer(path, given, self._is_wanted)
        if found is None:
            return HTTPStatus.NOT_FOUND, "text/plain", b"there is nothing at this address"
        if isinstance(found, str):
            return HTTPStatus.OK, "text/html", found.encode("utf-8", "replace")
        return HTTPStatus.OK, "application/json", orjson.dumps(found.value)

    def _is_wanted(self) -> bool:
        """Returns false if the browser has closed the connection: it asks for something else by now."""
        if not select.select([self.connection], [], [], 0)[0]:
            return True
        try:
            return bool(self.connection.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def version_string(self) -> str:
        """Names no version."""
        return "evalbeam"

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: an address has the token."""


@contextmanager
def listening(site: Site, port: int = 0) -> Iterator[ViewServer]:
    """A server that listens; `serve_until` answers its requests."""
    server = ViewServer(site, port)
    try:
        yield server
    finally:
        server.server_close()


def serve_until_stopped(server: ViewServer, started: Callable[[], None] = lambda: None) -> None:
    """Serves until Ctrl-C.

    Args:
        server: What listens.
        started: Called first, in the same thread; Ctrl-C during it ends the server as well.
    """
    try:
        started()
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        pass
