"""Protects other people's files in an output folder: a run replaces and removes only files of earlier runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from ...schemas.errors import ConfigError
from ...schemas.run_folder import INSTANCES, OF_ONE_FILE, TABLE_ENDINGS, RunFolder
from ...transforms.io import storage
from ...transforms.journal.run_state import read_run
from ..runners import lease


def refuse_others(
    output: str, dataset: Sequence[str] = (), files: Collection[str] = (), written: Collection[str] = ()
) -> None:
    """Refuses a folder that nothing can be written to, or in which a run would replace or drop what is not its own.

    Args:
        output: Folder of a run that is to start.
        dataset: Paths of its dataset: files, folders and globs.
        files: The files that these stand for.
        written: Files that the run writes beside those of every run.

    Raises:
        ConfigError: Nothing can be written there; the folder has never been a run's, and holds a file under a name
            that a run writes; its manifest.json is somebody else's; the run would replace its own dataset, or a later
            one would read its tables as rows.
    """
    tables = RunFolder(output).at(INSTANCES)
    if own := next((path for path in files if storage.same(path.rpartition("/")[0], tables)), None):
        found = f"{own} is where this run writes its instances table"
        raise ConfigError(found, where="output.path", allowed="another folder than the dataset's")
    folders = (path.partition("**")[0] for path in dataset if path not in files)
    if above := next((folder for folder in folders if storage.is_found_below(folder, output)), None):
        found = f"{output} lies in the dataset's folder {above!r}, whose files are all read, those of runs too"
        raise ConfigError(found, where="output.path", allowed="a folder beside the dataset's, or a glob for its files")
    lease.require_writable(output)
    if lease.latest(output) is not None or (run := read_run(output)).manifest is not None or run.journals:
        return
    inside = (path for own in run.folder.owned_folders for path in storage.below(own)[:1])
    beside = (path for path in (*run.folder.owned_files, *written) if storage.exists(path))
    if other := next(chain(inside, _tables(run.folder), beside), None):
        found = f"{other} belongs to no run, and this one would replace it"
        raise ConfigError(found, where="output.path", allowed="a folder of its own")


def _tables(folder: RunFolder) -> Iterator[str]:
    """Yields the files that bear the name of a table of one file: one listing for each table, whatever its ending."""
    for table in OF_ONE_FILE:
        there = {path.rpartition("/")[2] for path, _ in storage.matched_in(folder.path, f"{table}.*")}
        yield from (folder.at(table + ending) for ending in TABLE_ENDINGS if table + ending in there)
