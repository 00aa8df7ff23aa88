"""Who is let in, and what is found under which path; requests are written by hand, as no browser would send them."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalbeam import ConfigError, EvaluationResult
from evalbeam.pipelines.view.server import listening
from evalbeam.pipelines.view.site import Site

View = Callable[..., Any]


def test_the_page_is_served_to_who_has_the_token(result: EvaluationResult, view: View) -> None:
    client = view(result.output)
    page = client.get()
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert b"connect-src &#39;self&#39;" in page.body
    assert b"script-src &#39;sha256-" in page.body
    assert client.server.server_address[0] == "127.0.0.1"


def test_each_server_has_a_token_of_its_own(result: EvaluationResult, view: View) -> None:
    one, other = view(result.output), view(result.output)
    assert len(one.server.token) >= 32
    assert one.server.token != other.server.token
    assert one.send("GET", f"/{other.server.token}/").status == 403


@pytest.mark.parametrize("path", ["/", "", "/rows", "/favicon.ico", "/TOKEN", "/TOKENx/", "/x/../TOKEN/", "*"])
def test_a_path_without_the_token_is_refused(result: EvaluationResult, view: View, path: str) -> None:
    client = view(result.output)
    refused = client.send("GET", path.replace("TOKEN", client.server.token))
    assert refused.status in (400, 403)
    assert result.output.encode() not in refused.body


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:PORT", "evil.example:PORT"])
def test_another_host_is_refused(result: EvaluationResult, view: View, host: str) -> None:
    """A page of a site whose name was made to lead to this machine could read the answers otherwise."""
    client = view(result.output)
    port = str(client.server.server_port)
    asked = f"/{client.server.token}/"
    assert client.send("GET", asked, host=host.replace("PORT", port)).status == 403
    assert client.send("GET", asked, host=f"localhost:{port}").status == 200


@pytest.mark.parametrize(
    "path",
    [
        "manifest.json",
        "instances/",
        "../manifest.json",
        "../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2f..%2fetc%2fpasswd/",
        "/etc/passwd",
        "%00/",
        "rows/",
        "nothing",
    ],
)
def test_nothing_but_the_run_is_found(result: EvaluationResult, view: View, path: str) -> None:
    client = view(result.output)
    assert client.get(path).status == 404
    folder = view(str(Path(result.output).parent))
    assert folder.get("run/").status == 200
    assert folder.get("run/" + path).status == 404
    assert folder.get(path).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(result: EvaluationResult, view: View, method: str) -> None:
    client = view(result.output)
    assert client.send(method, f"/{client.server.token}/").status == 501


def test_a_head_has_no_body(result: EvaluationResult, view: View) -> None:
    client = view(result.output)
    found = client.send("HEAD", f"/{client.server.token}/")
    assert (found.status, found.body) == (200, b"")
    assert int(found.headers["content-length"]) > 10_000


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("rows?sort=nobody", "the run has no column 'nobody'"),
        ("rows?slice.nobody=1", "the run has no column 'nobody'"),
        ("rows?range.prompt=1..2", "the column 'prompt' has no numbers"),
        ("rows?range.weight=a..b", "found the range 'a..b'"),
        ("rows?page=-1", "found '-1'"),
        ("rows?size=many", "found 'many'"),
        ("rows?q=" + "x" * 1001, "the search has 1,001 characters"),
    ],
)
def test_a_mistake_is_told(result: EvaluationResult, view: View, path: str, told: str) -> None:
    found = view(result.output).get(path)
    assert found.status == 400
    assert told in found.body.decode()
    assert found.headers["content-type"].startswith("text/plain")


def test_a_client_that_leaves_harms_nobody(
    result: EvaluationResult, view: View, capsys: pytest.CaptureFixture[str]
) -> None:
    client = view(result.output)
    for sent in (b"", b"GET / HT", b"\x00\xff\r\n\r\n", f"GET /{client.server.token}/ HTTP/1.1\r\n\r\n".encode()):
        with socket.create_connection(("127.0.0.1", client.server.server_port)) as broken:
            broken.sendall(sent)
    assert client.get("rows?size=1").value["count"] == 330
    assert "Traceback" not in capsys.readouterr().err


def test_a_taken_port_is_told(result: EvaluationResult, view: View, tmp_path: Path) -> None:
    port = view(result.output).server.server_port
    with pytest.raises(ConfigError, match=f"cannot listen on port {port}"), listening(Site(str(tmp_path)), port):
        pass


# ---------------------------------------------------------------------------------------------------------- folders


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no run, and has none in it"):
        Site(str(tmp_path)).open(str(tmp_path))


def test_half_a_run_is_told(result: EvaluationResult, tmp_path: Path) -> None:
    half = tmp_path / "half"
    shutil.copytree(result.output, half)
    (half / "manifest.json").unlink()
    for folder in ("journal", "lease"):
        (half / folder).mkdir(exist_ok=True)
        (half / folder / "a").write_text("")
    with pytest.raises(ConfigError, match=r"holds half a run.*evalbeam journal"):
        Site(str(tmp_path)).open(str(half))
    with pytest.raises(ConfigError, match="holds half a run"):
        Site(str(tmp_path)).open(result.output, str(half))


def test_a_manifest_of_another_version_is_told(result: EvaluationResult, tmp_path: Path, view: View) -> None:
    old = tmp_path / "old"
    shutil.copytree(result.output, old)
    manifest = json.loads((old / "manifest.json").read_text())
    for table in manifest["tables"].values():
        del table["columns"]
    (old / "manifest.json").write_text(json.dumps(manifest))
    found = view(str(old)).get()
    assert found.status == 400
    assert "cannot be shown: its files are not what evalbeam" in found.body.decode()
    assert "columns" in found.body.decode()


def test_a_run_without_rows_shows_why(tmp_path: Path, result: EvaluationResult, view: View) -> None:
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    manifest = json.loads((Path(result.output) / "manifest.json").read_text())
    failed = {"state": "failed", "verdict": None, "reason": "all 3 rows are unusable", "tables": {}, "criteria": []}
    (stopped / "manifest.json").write_text(json.dumps(manifest | failed))
    client = view(str(stopped))
    page = client.get()
    assert page.status == 200
    assert "all 3 rows are unusable" in page.body.decode()
    assert client.get("rows").status == 404


def test_a_run_that_was_written_anew_is_read_anew(result: EvaluationResult, tmp_path: Path, view: View) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(result.output, copied)
    client = view(str(copied))
    assert b"anew" not in client.get().body
    path = copied / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reason": "written anew"}))
    assert b"written anew" in client.get().body
