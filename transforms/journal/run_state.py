"""What stands in the folder of a run: its manifest, and the journals of what its starts have paid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.run_folder import FINGERPRINT_RECORD, JUDGES_RECORD, RunFolder
from ..io import storage


@dataclass(frozen=True)
class RunState:
    """What earlier starts of a run have left in its folder, as it was when it was read.

    Attributes:
        folder: The folder of the run.
        manifest: Contents of its manifest; `None` if it has not ended.
        agents: The fingerprints that calls are journaled under, and the parts of each.
        judged: Whether judges were asked.
        retry: The number of retries that were begun.
    """

    folder: RunFolder
    manifest: Mapping[str, Json] | None = None
    agents: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    judged: bool = False
    retry: int = 0

    @property
    def ended_as(self) -> str | None:
        """State in the manifest; `None` if there is none yet."""
        return None if self.manifest is None else self.manifest["state"]

    @property
    def journals(self) -> list[str]:
        """Folders of the journals: one for each fingerprint calls were made under, then that of the votes."""
        folders = [self.folder.agent_journal(own) for own in sorted(self.agents)]
        return [*folders, *([self.folder.judge_journal] if self.judged else [])]


def read_run(output: str) -> RunState:
    """Reads what stands in the folder of a run.

    Raises:
        ConfigError: As `manifest_at`.
    """
    folder, manifest = RunFolder(output), manifest_at(output)
    files = storage.below(folder.journals)
    retry = orjson.loads(storage.read_bytes(folder.retries)) if folder.retries in files else 0
    judged = storage.join(folder.judge_journal, JUDGES_RECORD) in files
    return RunState(folder, manifest, _read_agents(files), judged, retry)


def read_agents(output: str) -> dict[str, dict[str, Json]]:
    """Reads the fingerprints that a run's calls are journaled under, and the parts of each."""
    return _read_agents(storage.below(RunFolder(output).journals))


def _read_agents(files: list[str]) -> dict[str, dict[str, Json]]:
    records = [path for path in files if path.endswith("/" + FINGERPRINT_RECORD)]
    return {path.split("/")[-2]: orjson.loads(storage.read_bytes(path)) for path in records}


def manifest_at(output: str) -> dict[str, Json] | None:
    """Contents of the manifest of a run; `None` if there is none yet.

    Raises:
        ConfigError: It cannot be read, or is something else under that name.
    """
    path = RunFolder(output).manifest
    try:
        if not storage.exists(path):
            return None
        found = orjson.loads(storage.read_bytes(path))
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"not valid JSON: {error}", where=path, allowed="the manifest of a run") from None
    except Exception as error:  # each filesystem has exceptions of its own
        text = " ".join(str(error).split())
        raise ConfigError(f"cannot be read: {type(error).__name__}: {text[:300]}", where=path) from error
    if not isinstance(found, dict) or "state" not in found:
        raise ConfigError("is not the manifest of a run", where=path, allowed="another folder")
    return found
