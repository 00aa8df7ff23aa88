"""Whose files stand in an output folder: a run replaces and drops those of earlier runs, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterable

from ..schemas.errors import ConfigError
from ..transforms import storage
from ..transforms.finish import JOURNAL, STOP, TABLE_ENDINGS
from ..transforms.handoff import FOLDER
from . import lease
from .result import manifest_at
from .resume import journals

_FOLDERS = ("instances", JOURNAL, FOLDER, ".tmp")
_FILES = (*(table + ending for table in ("summary", "errors") for ending in TABLE_ENDINGS), "report.html", STOP)


def refuse_others(output: str, dataset: Iterable[str] = ()) -> None:
    """Refuses a folder in which a run would replace or drop what is not its own.

    Args:
        output: Folder of a run that is to start.
        dataset: Files that it is to read.

    Raises:
        ConfigError: The folder has never been a run's, and holds a file under a name that a run writes; its
            manifest.json is somebody else's; or the run would replace its own dataset.
    """
    tables = storage.join(output, "instances")
    if own := next((path for path in dataset if _lies_in(path, tables)), None):
        found = f"{own} is where this run writes its instances table"
        raise ConfigError(found, where="output.path", allowed="another folder than the dataset's")
    if manifest_at(output) is not None or lease.latest(output) is not None or journals(output):
        return
    folders = (path for name in _FOLDERS for path in storage.below(storage.join(output, name))[:1])
    files = (path for name in _FILES if storage.exists(path := storage.join(output, name)))
    if others := next((path for found in (folders, files) for path in found), None):
        found = f"{others} belongs to no run, and this one would replace it"
        raise ConfigError(found, where="output.path", allowed="a folder of its own")


def _lies_in(path: str, folder: str) -> bool:
    return storage.same(path.rpartition("/")[0], folder)
