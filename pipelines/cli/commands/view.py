"""The command `view`: shows runs in a browser, from a server on this machine."""

from __future__ import annotations

import argparse
from typing import Any

from ....schemas.errors import ConfigError
from ....schemas.exit_codes import EXIT_PASSED
from .base import reject_arguments

_ABOUT = """\
Shows a run in the browser with all its rows, whatever their number; of a folder of runs, their list and how the metrics
went; of two runs, their comparison. The server listens on this machine alone, under an address that has a random token.
Ctrl-C ends it with 0."""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser("view", help="show runs in the browser", description=_ABOUT)
    parser.add_argument("folder", metavar="FOLDER", help="folder of a run, or of runs, on a disk or gs://")
    parser.add_argument("other", nargs="?", metavar="OTHER", help="folder of a second run, compared with the first")
    parser.add_argument("--no-open", action="store_true", help="print the address and open no browser")
    parser.add_argument("--port", default="0", metavar="PORT", help="port to listen on (default: any free one)")
    parser.set_defaults(handle=_view)


def _view(args: argparse.Namespace, rest: list[str]) -> int:
    import tempfile
    import threading

    from ...display.console import note, say
    from ...view.server import listening, serve_until_stopped
    from ...view.site import Site

    reject_arguments(rest)
    port = _parse_port(args.port)
    with tempfile.TemporaryDirectory(prefix="evalbeam-view-", ignore_cleanup_errors=True) as folder:
        site = Site(folder)
        shown = site.open(args.folder, args.other)
        with listening(site, port) as server:

            def start() -> None:
                threading.Thread(target=site.prepare, daemon=True).start()
                say(server.address)
                note(f"shows {shown} until Ctrl-C")
                if not args.no_open:
                    _open_browser(server.address)

            serve_until_stopped(server, start)
    return EXIT_PASSED


def _open_browser(address: str) -> None:
    """Opens the browser of the person; without one the printed address is enough."""
    import threading
    import webbrowser

    # A browser of the terminal stays until it is left, and the page that it waits for comes from this process.
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text[:9]) > 65535:
        raise ConfigError(f"found {text!r}", where="--port", allowed="a number from 0 to 65535")
    return int(text)
