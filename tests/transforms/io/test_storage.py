"""Whether files can be made at a place is found out without making one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from json_server import JsonHandler, serving

from evalbeam.transforms.io import storage


@contextmanager
def as_somebody() -> Iterator[None]:
    """Without the rights of root."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(own)


def test_a_folder_without_permission(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    for folder in ("closed", "closed/new/out"):
        with as_somebody(), pytest.raises(PermissionError):
            storage.try_folder(str(tmp_path / folder))
    storage.try_folder(str(tmp_path / "open" / "new"))
    assert [p.name for p in tmp_path.rglob("*")] == ["closed"]


class Buckets(JsonHandler):
    """Begins uploads to the bucket "open", and notes all that is asked for."""

    def do_POST(self) -> None:
        self.server.asked.append((self.path, self.body()["name"]))  # type: ignore[attr-defined]
        bucket = self.path.split("/b/")[1].partition("/")[0]
        if bucket == "open":
            self.send_response(200)
            self.send_header("Location", f"http://127.0.0.1/{self.path}&upload_id=1")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        code, words = {"none": (404, "The specified bucket does not exist."), "closed": (403, "denied")}[bucket]
        self.answer({"error": {"code": code, "message": words}}, code)


@pytest.mark.parametrize(
    ("bucket", "refused"),
    [("open", ""), ("none", "404 .*The specified bucket does not exist"), ("closed", "403 .*denied")],
)
def test_a_bucket_is_asked_for_an_upload_that_never_goes_on(bucket: str, refused: str) -> None:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage as gcs

    asked: list[tuple[str, str]] = []
    with serving(Buckets, asked=asked) as server:
        endpoint: Any = {"api_endpoint": f"http://127.0.0.1:{server.server_port}"}
        client = gcs.Client("project", AnonymousCredentials(), client_options=endpoint)
        if refused:
            with pytest.raises(GoogleAPIError, match=f"(?s){refused}"):
                storage._try_gcs(f"gs://{bucket}/a/run", client)
        else:
            storage._try_gcs(f"gs://{bucket}/a/run", client)
        client.close()
    ((path, name),) = asked
    assert path.startswith(f"/upload/storage/v1/b/{bucket}/o?uploadType=resumable")
    assert name.startswith("a/run/")


def test_a_glob_is_one_below_a_folder_whose_name_has_its_characters(tmp_path: Path, monkeypatch: Any) -> None:
    names = ["o[1]*/00/seg-a", "o[1]*/00/seg-b.open", "o[1]*/00/other", "o[1]*/seg-c", "o1x/00/seg-d"]
    for name in names:
        storage.write_bytes(str(tmp_path / name), name.encode())
    folder = f"{tmp_path}/o[1]*"
    found = {path.removeprefix(f"{tmp_path}/"): size for path, size in storage.matched_in(folder, "*/seg-*")}
    assert found == {name: len(name) for name in names[:2]}
    assert list(storage.matched_in(f"{tmp_path}/nowhere", "*/seg-*")) == []
    listing = Path.glob

    def renamed(self: Path, pattern: str) -> Iterator[Path]:
        for path in sorted(listing(self, pattern)):
            yield path.rename(path.with_suffix("")) and path

    monkeypatch.setattr(Path, "glob", renamed)
    at_once = dict(storage.matched_in(folder, "*/seg-*.open"))
    assert at_once == {f"{folder}/00/seg-b.open": 0}
