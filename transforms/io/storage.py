"""Small things done with files on any filesystem Beam opens."""

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

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from ...schemas.errors import ConfigError

_IN_A_FOLDER = re.compile(r"[^[*?]*/")


def join(base: str, *parts: str) -> str:
    """Path below another."""
    return FileSystems.join(base, *parts)


def same(one: str, other: str) -> bool:
    """Whether two paths name the same folder, as far as their words tell."""
    return _plain(one) == _plain(other)


def is_found_below(folder: str, path: str) -> bool:
    """Whether who searches a folder at any depth finds what lies at a path; hidden folders are not searched."""
    above, below = _plain(folder or ".").rstrip("/") + "/", _plain(path) + "/"
    return below.startswith(above) and not any(part[0] in "._" for part in below[len(above) :].split("/") if part)


def create(path: str) -> BinaryIO:
    """Opens a new file for writing, the folders above it made where the filesystem has folders."""
    _make_folder_of(path)
    return FileSystems.create(path, "application/octet-stream", CompressionTypes.UNCOMPRESSED)  # type: ignore[return-value]


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole file."""
    with create(path) as stream:
        stream.write(data)


def write_whole(path: str, data: bytes) -> None:
    """Writes a file, also over one that is there; who reads it at any time sees all of the one or of the other.

    Object storage promises that by itself.
    """
    if "://" in path:
        write_bytes(path, data)
        return
    temporary = f"{path}.{uuid.uuid4().hex}"
    write_bytes(temporary, data)
    os.replace(temporary, path)


def read_bytes(path: str) -> bytes:
    """Reads a whole file."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
        return stream.read()


def opened(path: str) -> BinaryIO:
    """Opens a file for reading, at any position."""
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[return-value]


def exists(path: str) -> bool:
    """Whether there is a file."""
    return FileSystems.exists(path)


def matched(pattern: str) -> list[tuple[str, int]]:
    """(path, bytes) of the files that a glob stands for, as Beam's filesystems read it."""
    here = "" if "://" in pattern or _IN_A_FOLDER.match(pattern) else "./"  # Beam lists no folder without a name
    found: list[Any] = FileSystems.match([here + pattern])[0].metadata_list
    return [(m.path.removeprefix(here), m.size_in_bytes) for m in found]


def matched_in(folder: str, pattern: str) -> Iterator[tuple[str, int]]:
    """(path, bytes) of the files below a folder that a glob stands for; the folder's own name is none.

    A file that is renamed meanwhile is there under its earlier name, with 0 bytes.
    """
    if "://" in folder:
        yield from matched(join(folder, pattern))
        return
    for path in Path(folder).glob(pattern):
        size = 0
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_size
        yield path.as_posix(), size


def below(folder: str) -> list[str]:
    """Paths of all files below a folder, at any depth, sorted; none where there is no such folder."""
    if "://" not in folder:  # not by a glob: a folder's name may have the characters of one
        return sorted(os.path.join(at, name) for at, _, names in os.walk(folder.rstrip("/") or "/") for name in names)
    return sorted(path for path, _ in matched(folder.rstrip("/") + "/**"))


def has_folders(path: str) -> bool:
    """Whether the path is on a filesystem with folders; object storage has none."""
    return FileSystems.get_filesystem(path).has_dirs()


def _plain(path: str) -> str:
    return path.rstrip("/") if "://" in path else os.path.abspath(path)


def _make_folder_of(path: str) -> None:
    folder = FileSystems.split(path)[0]
    if folder and has_folders(path) and not FileSystems.exists(folder):
        with contextlib.suppress(BeamIOError, OSError):  # made by another worker meanwhile
            FileSystems.mkdirs(folder)


def delete(paths: list[str]) -> None:
    """Deletes files; those that are gone already are fine."""
    for path in paths:
        if "://" not in path:
            Path(path).unlink(missing_ok=True)
        elif exists(path):
            try:
                FileSystems.delete([path])
            except BeamIOError:
                if exists(path):
                    raise


def delete_folder(folder: str) -> None:
    """Deletes a folder and all below it; on object storage, all objects of that prefix."""
    if "://" not in folder:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        return
    if not has_folders(folder):
        FileSystems.delete([folder.rstrip("/") + "/"])  # in batches; says nothing of what it could not delete
    delete(below(folder))
    if has_folders(folder) and exists(folder):
        FileSystems.delete([folder])


def move(source: str, destination: str) -> None:
    """Renames a file over what stands at its destination; done already (source gone, destination there) is fine."""
    if not exists(source):
        if exists(destination):
            return
        raise FileNotFoundError(f"neither {source} nor {destination} exists")
    if "://" not in destination:
        _make_folder_of(destination)
        os.replace(source, destination)
        return
    if has_folders(destination):
        delete([destination])
        _make_folder_of(destination)
    FileSystems.rename([source], [destination])


def create_new(path: str, data: bytes) -> bool:
    """Writes a whole file unless there is one; returns whether it did. Of several that try at once, one does.

    Raises:
        ConfigError: The filesystem cannot promise that.
    """
    if "://" not in path:
        return _create_new_local(path, data)
    if path.startswith("gs://"):
        return _create_new_gcs(path, data)
    raise ConfigError(f"{path} is on a filesystem without a create-if-absent", allowed="a local path, or gs://")


def try_folder(folder: str) -> None:
    """Finds out whether files can be made in a folder, which need not be there; nothing is made, and nothing changed.

    Raises:
        Exception: They cannot; each filesystem has exceptions of its own.
    """
    if folder.startswith("gs://"):
        _try_gcs(folder)
        return
    there = os.path.abspath(folder)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    with tempfile.TemporaryFile(dir=there):  # has no name where the system can do that
        pass


def _try_gcs(folder: str, client: Any = None) -> None:
    """By an upload that is begun and never goes on: nobody sees an object before its upload ends."""
    _blob(join(folder, uuid.uuid4().hex), client).create_resumable_upload_session(if_generation_match=0)


def _create_new_local(path: str, data: bytes) -> bool:
    """By a hard link, so that whoever sees the file sees all of it."""
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
    except PreconditionFailed:  # a repeated request finds its own first one: the contents tell
        return blob.download_as_bytes() == data
    return True


def _blob(path: str, client: Any) -> Any:
    """The object of Cloud Storage at a path; without a client by one of its own."""
    from google.cloud import storage

    bucket, _, name = path.removeprefix("gs://").partition("/")
    return (client or storage.Client()).bucket(bucket).blob(name)
