"""Finds the files of a dataset and the reader of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from ...schemas.batch import RowBlock
from ...schemas.errors import ConfigError, Mistakes
from ..io import storage
from ..registry import build, find, names
from .base import Reader, SchemeReader, selection

_WHERE = "dataset.path"
_NO_DATA = ("manifest.json", "test_config.json", "eval_config.json")
_GLOB = re.compile(r"[*?[]")
_SNIFFED = 65_536
"""Bytes of a file that are searched for the cases of an EvalSet: its description stands before them."""


class FileInfo(NamedTuple):
    """One file of a dataset: its path, its size in bytes, and the name of its reader."""

    path: str
    size: int
    format: str


def readers_of(
    files: Iterable[FileInfo], columns: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> dict[str, Reader]:
    """Builds the reader of each format among the files, with the options that it accepts."""
    formats = sorted({file.format for file in files})
    return {name: _reader(name, {"columns": dict(columns), **(options or {})}) for name in formats}


def _reader(name: str, params: Mapping[str, Any]) -> Reader:
    part = find("reader", name)
    known = {f.name for f in fields(part.factory)} if is_dataclass(part.factory) else params.keys()
    return build(part, {k: v for k, v in params.items() if k in known}, "dataset")


def head(
    files: Sequence[FileInfo],
    columns: Mapping[str, str] | None = None,
    rows: int = 20,
    options: Mapping[str, Any] | None = None,
) -> list[RowBlock]:
    """Reads the first blocks of a dataset, see `take_head`."""
    return take_head(read_blocks(files, readers_of(files, columns or {}, options)), rows)


def take_head(blocks: Iterable[RowBlock], rows: int) -> list[RowBlock]:
    """Takes the first blocks until they have at least `rows` rows and rejected lines together.

    Raises:
        ConfigError: A CSV file among them has no valid header.
    """
    taken: list[RowBlock] = []
    held = 0
    for block in blocks:
        for line in block.rejected:
            if line.code == "bad_header":
                raise ConfigError(line.message, where=block.file)
        taken.append(block)
        held += len(block.rows) + len(block.rejected)
        if held >= rows:
            break
    return taken


def read_blocks(files: Iterable[FileInfo], readers: Mapping[str, Reader]) -> Iterator[RowBlock]:
    """Yields the blocks of files, in their order, read as they are needed."""
    for path, size, format_ in files:
        for part in readers[format_].split(path, size):
            yield from readers[format_].read(part)


def expand(paths: Iterable[str], format_: str = "auto", options: Mapping[str, Any] | None = None) -> list[FileInfo]:
    """Expands paths, folders and globs to files, sorted by path, each once.

    Folders are searched at any depth; globs as in Beam's filesystems ("*" does not cross folders, "**" does). Skipped
    are files with unknown endings, hidden ones (a name or subfolder that starts with "." or "_"), every
    `manifest.json`, and the configurations of ADK's eval sets. A file given by its own path is always included.

    Args:
        paths: Paths on any filesystem that Beam can open, or of a reader's own scheme ("bq://"), for which `format_` is
            ignored.
        format_: Name of a reader, or "auto" to choose by the ending of each file.
        options: As in `ReadRows`.

    Raises:
        ConfigError: A path cannot be listed or matches no file; all such paths are named.
    """
    suffixes = known_suffixes()
    if format_ != "auto":
        find("reader", format_, "dataset.format")
    found: dict[str, FileInfo] = {}
    mistakes = Mistakes()
    for path in paths:
        with mistakes.collect():
            files = _of_scheme(path, options or {}) or list(_files_of(path, format_, suffixes))
            if not files:
                raise _nothing(path, format_, suffixes)
            found.update((f.path, f) for f in files)
    mistakes.raise_all()
    if not found:
        raise ConfigError("no path is given", where=_WHERE)
    return [found[path] for path in sorted(found)]


def known_suffixes() -> dict[str, str]:
    """Returns the name of the reader for each ending of a file name."""
    return {
        suffix: name for name in names("reader") for suffix in getattr(find("reader", name).factory, "suffixes", ())
    }


def _of_scheme(path: str, options: Mapping[str, Any]) -> list[FileInfo]:
    """Returns the data at a path of a reader's own scheme, or nothing for other paths."""
    for name in names("reader"):
        factory = find("reader", name).factory
        if isinstance(factory, type) and issubclass(factory, SchemeReader) and path.startswith(factory.scheme):
            reader: Any = _reader(name, options)
            return [FileInfo(path, reader.measure(path), name)]
    return []


def _files_of(path: str, format_: str, suffixes: Mapping[str, str]) -> Iterator[FileInfo]:
    file = _selected(path, format_, suffixes)
    try:
        exact, below = _listed(file)
    except Exception as error:  # each filesystem raises exceptions of its own
        found = f"cannot list {path!r}: {type(error).__name__}: {str(error)[:300]}"
        raise ConfigError(found, where=_WHERE) from error
    if exact is not None:
        reader = _format_of(file, suffixes, sniff=True) if format_ == "auto" else format_
        if reader:
            yield FileInfo(path, exact, reader)
        return
    if not below:
        allowed = "a file, a folder with files in it, or a glob that matches some"
        raise ConfigError(f"there is no file at {path!r}", where=_WHERE, allowed=allowed)
    root = _GLOB.split(path)[0].rpartition("/")[0] if _GLOB.search(path) else path
    for file, size in below:
        steps = file.removeprefix(root).strip("/").split("/")
        if any(step[:1] in (".", "_") for step in steps) or steps[-1] in _NO_DATA:
            continue
        reader = _format_of(file, suffixes, sniff=format_ == "auto")
        if format_ == "auto" and reader:
            yield FileInfo(file, size, reader)
        elif format_ != "auto" and (reader == format_ or _GLOB.search(path)):
            yield FileInfo(file, size, format_)


def _selected(path: str, format_: str, suffixes: Mapping[str, str]) -> str:
    """Returns the file of a path that selects cases, if its reader supports that; else the path."""
    file, cases = selection(path)
    reader = _format_of(file, suffixes, sniff=bool(cases)) if format_ == "auto" else format_
    return file if cases and reader and find("reader", reader).factory.selects else path  # type: ignore[attr-defined]


def _listed(path: str) -> tuple[int | None, list[tuple[str, int]]]:
    """Returns (bytes of the file at this exact path or `None`, else the files of the folder or glob)."""
    local = "://" not in path
    if _GLOB.search(path) and not (local and os.path.exists(path)):
        return None, storage.matched(path)
    if not (path.endswith("/") or (local and os.path.isdir(path))):
        for file, size in storage.matched(_literal(path)):
            if file == path:
                return size, []
    folder = path.rstrip("/") + "/"
    return None, [(file, size) for file, size in storage.matched(_literal(folder) + "**") if file.startswith(folder)]


def _literal(path: str) -> str:
    """Returns a pattern that matches the path itself, since Beam cannot escape the special characters of a glob."""
    return _GLOB.sub("?", path)


def _format_of(path: str, suffixes: Mapping[str, str], sniff: bool = False) -> str | None:
    """Returns the reader of a file by its ending; with `sniff`, an EvalSet is found by its content, too."""
    fitting = [s for s in suffixes if path.lower().endswith(s)]
    ending = max(fitting, key=len) if fitting else None
    if sniff and ending == ".json" and holds_eval_set(path):
        return "evalset"
    return suffixes[ending] if ending else None


def holds_eval_set(path: str) -> bool:
    """Returns true if a file begins as an EvalSet of ADK does, which is a file of JSON and not of JSON lines."""
    try:
        with storage.opened(path) as stream:
            start = stream.read(_SNIFFED).removeprefix(b"\xef\xbb\xbf").lstrip()
    except Exception:  # each filesystem has its own; whoever reads the file says what is wrong with it
        return False
    return start.startswith(b"{") and re.search(rb'"eval_?cases"\s*:\s*\[', start, re.IGNORECASE) is not None


def _nothing(path: str, format_: str, suffixes: Mapping[str, str]) -> ConfigError:
    known = ", ".join(s for s in sorted(suffixes) if format_ in ("auto", suffixes[s]))
    allowed = f"files ending in {known}; others by their own path or a glob, with dataset.format"
    return ConfigError(f"{path!r} stands for no dataset file", where=_WHERE, allowed=allowed)
