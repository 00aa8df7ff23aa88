"""File operations on this machine's disks, and on any other filesystem that Beam opens.

Local files need no Beam: importing it takes two seconds, for which commands that only look at a run would wait.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ...schemas.errors import ConfigError

_IN_A_FOLDER = re.compile(r"[^[*?]*/")
_WILDCARD = re.compile(r"[*?\[]")
_AS_IT_IS = "uncompressed"
"""Beam's name for a file that is neither compressed nor decompressed, whatever the ending of its name."""


def is_local(path: str) -> bool:
    """Returns whether a path is on a disk of this machine, rather than the address of a file elsewhere."""
    return "://" not in path


def join(base: str, *parts: str) -> str:
    """Joins parts of a path."""
    return os.path.join(base, *parts) if is_local(base) else _beam().join(base, *parts)


def same(one: str, other: str) -> bool:
    """Returns whether two paths name the same folder, without looking at the filesystem."""
    return _plain(one) == _plain(other)


def is_found_below(folder: str, path: str) -> bool:
    """Returns whether a recursive search of a folder would find a path; such a search skips hidden folders."""
    above, below = _plain(folder or ".").rstrip("/") + "/", _plain(path) + "/"
    return below.startswith(above) and not any(part[0] in "._" for part in below[len(above) :].split("/") if part)


def create(path: str) -> BinaryIO:
    """Opens a new file for writing, and creates its folders if the filesystem has folders."""
    _make_folder_of(path)
    if is_local(path):
        return open(path, "wb")
    return _beam().create(path, "application/octet-stream", _AS_IT_IS)


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole file."""
    with create(path) as stream:
        stream.write(data)


def write_whole(path: str, data: bytes) -> None:
    """Writes or replaces a file atomically: a reader sees all of the old or all of the new content.

    Object storage guarantees that by itself.
    """
    if not is_local(path):
        write_bytes(path, data)
        return
    with replacing(path) as stream:
        stream.write(data)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Opens a file that replaces an existing one when the block ends, and not at all if the block fails."""
    if not is_local(path):
        with tempfile.TemporaryFile() as whole:  # object storage would keep what was written before a failure
            yield whole
            whole.seek(0)
            with create(path) as stream:
                shutil.copyfileobj(whole, stream, 1 << 20)
        return
    temporary = f"{path}.{uuid.uuid4().hex}"
    try:
        with create(temporary) as stream:
            yield stream
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def read_bytes(path: str) -> bytes:
    """Reads a whole file."""
    with opened(path) as stream:
        return stream.read()


def opened(path: str) -> BinaryIO:
    """Opens a file for reading, at any position."""
    return open(path, "rb") if is_local(path) else _beam().open(path, compression_type=_AS_IT_IS)


def exists(path: str) -> bool:
    """Returns whether a file exists."""
    return os.path.exists(path) if is_local(path) else _beam().exists(path)


def matched(pattern: str) -> list[tuple[str, int]]:
    """Lists (path, bytes) of the files that match a glob, by the rules of Beam's filesystems."""
    if is_local(pattern) and not _WILDCARD.search(pattern):
        return [(pattern, os.path.getsize(pattern))] if os.path.isfile(pattern) else []
    here = "" if not is_local(pattern) or _IN_A_FOLDER.match(pattern) else "./"  # Beam lists nothing for a bare pattern
    found: list[Any] = _beam().match([here + pattern])[0].metadata_list
    return [(m.path.removeprefix(here), m.size_in_bytes) for m in found]


def matched_in(folder: str, pattern: str) -> Iterator[tuple[str, int]]:
    """Yields (path, bytes) of the files below a folder that match a glob; the folder itself is no glob.

    A file that is renamed meanwhile is listed under its earlier name, with 0 bytes.
    """
    if not is_local(folder):
        yield from matched(join(folder, pattern))
        return
    for path in Path(folder).glob(pattern):
        size = 0
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_size
        yield path.as_posix(), size


def below(folder: str) -> list[str]:
    """Lists the paths of all files below a folder, at any depth, sorted; none if there is no such folder."""
    if is_local(folder):  # not by a glob, since the name of a folder may contain wildcards
        return sorted(os.path.join(at, name) for at, _, names in os.walk(folder.rstrip("/") or "/") for name in names)
    return sorted(path for path, _ in matched(folder.rstrip("/") + "/**"))


def has_folders(path: str) -> bool:
    """Returns whether a path is on a filesystem with folders; object storage has none."""
    return is_local(path) or _beam().get_filesystem(path).has_dirs()


def _beam() -> Any:
    """Returns Beam's registry of filesystems."""
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def _plain(path: str) -> str:
    return path.rstrip("/") if not is_local(path) else os.path.abspath(path)


def _make_folder_of(path: str) -> None:
    if is_local(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return
    folder = _beam().split(path)[0]
    if folder and has_folders(path) and not exists(folder):
        with contextlib.suppress(OSError):  # Beam's errors are OSErrors; another worker has created it meanwhile
            _beam().mkdirs(folder)


def delete(paths: list[str]) -> None:
    """Deletes files; ignores those that no longer exist."""
    for path in paths:
        if is_local(path):
            Path(path).unlink(missing_ok=True)
        elif exists(path):
            try:
                _beam().delete([path])
            except OSError:
                if exists(path):
                    raise


def delete_folder(folder: str) -> None:
    """Deletes a folder and everything below it; on object storage, all objects with that prefix."""
    if is_local(folder):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        return
    if not has_folders(folder):
        _beam().delete([folder.rstrip("/") + "/"])  # in batches, but silent about what it could not delete
    delete(below(folder))
    if has_folders(folder) and exists(folder):
        _beam().delete([folder])


def move(source: str, destination: str) -> None:
    """Renames a file, replacing the destination; does nothing if that is done already (only the destination exists)."""
    if not exists(source):
        if exists(destination):
            return
        raise FileNotFoundError(f"neither {source} nor {destination} exists")
    if is_local(destination):
        _make_folder_of(destination)
        os.replace(source, destination)
        return
    if has_folders(destination):
        delete([destination])
        _make_folder_of(destination)
    _beam().rename([source], [destination])


def create_new(path: str, data: bytes) -> bool:
    """Writes a whole file unless it exists; returns whether it did. Of several concurrent writers exactly one succeeds.

    Raises:
        ConfigError: The filesystem cannot guarantee that.
    """
    if is_local(path):
        return _create_new_local(path, data)
    if path.startswith("gs://"):
        return _create_new_gcs(path, data)
    raise ConfigError(f"{path} is on a filesystem without a create-if-absent", allowed="a local path, or gs://")


def try_folder(folder: str) -> None:
    """Checks that files can be created in a folder, which need not exist; leaves nothing behind.

    Raises:
        Exception: They cannot; each filesystem has its own exceptions.
    """
    if folder.startswith("gs://"):
        _try_gcs(folder)
        return
    there = os.path.abspath(folder)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(there)  # fails if a name is too long, which nothing below would notice
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    with tempfile.TemporaryFile(dir=there):  # an unnamed file, if the system has such
        pass


def _try_gcs(folder: str, client: Any = None) -> None:
    """Starts an upload and never continues it: an object is visible only when its upload ends."""
    _blob(join(folder, uuid.uuid4().hex), client).create_resumable_upload_session(if_generation_match=0)


def _create_new_local(path: str, data: bytes) -> bool:
    """Writes a temporary file and links it, so that a reader sees all of the file or none."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex}"
    with open(temporary, "xb") as file:
        file.write(data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def _create_new_gcs(path: str, data: bytes, client: Any = None) -> bool:
    from google.api_core.exceptions import PreconditionFailed

    blob = _blob(path, client)
    try:
        blob.upload_from_string(data, if_generation_match=0)
    except PreconditionFailed:  # a retried request may have succeeded before: the contents tell
        return blob.download_as_bytes() == data
    return True


def _blob(path: str, client: Any) -> Any:
    """Returns the object of Cloud Storage at a path, with a new client unless one is given."""
    from google.cloud import storage

    bucket, _, name = path.removeprefix("gs://").partition("/")
    return (client or storage.Client()).bucket(bucket).blob(name)
