"""What is asked of a run that exists: its configuration, its open calls, its end, its journals in fewer files."""

from __future__ import annotations

from typing import Any

from ...schemas.errors import ConfigError
from ...schemas.run_folder import FINISHED, RunFolder
from ...transforms.calls.paid import PaidCalls
from ...transforms.io import storage
from ...transforms.journal.journal import compact
from ...transforms.journal.run_state import manifest_at, read_run
from ..runners import lease


def config_at(output: str, command: str) -> dict[str, Any]:
    """The configuration of the run in a folder, as its manifest tells it.

    Raises:
        ConfigError: There is no manifest.
    """
    manifest = manifest_at(output)
    if manifest is None:
        allowed = "the output folder of a run that ended; `evalbeam run` with the same configuration resumes another"
        raise ConfigError(f"no finished run at {output!r}", where=command, allowed=allowed)
    return {**manifest["config"], "output": {**manifest["config"]["output"], "path": output, "overwrite": False}}


def nothing_to_retry(output: str) -> bool:
    """Returns whether a run has finished and all its calls have answers."""
    run = read_run(output)
    return run.ended_as == FINISHED and not PaidCalls(run).without_answer


def compact_all(output: str) -> int:
    """Brings the journals of a finished run into one file each; returns the number of their records.

    Raises:
        ConfigError: The run is not finished.
    """
    run = read_run(output)
    if run.ended_as != FINISHED:
        raise ConfigError(f"no finished run at {output!r}", where="--compact", allowed="the output folder of one")
    return sum(map(compact, run.journals))


def cancel(output: str, reason: str = "cancelled by evalbeam cancel", now: bool = False) -> None:
    """Stops a run.

    Args:
        output: Folder of the run.
        reason: Why, in words that its manifest repeats.
        now: End it on its engine there and then, without tables; else it makes no more calls and ends by itself.

    Raises:
        ConfigError: Nothing runs there, or nothing that can be ended from here.
    """
    nothing = ConfigError(f"no unfinished run at {output!r}", where="cancel", allowed="the output folder of a run")
    found = lease.latest(output)
    held = found is not None and not found.released
    if now:
        if found is None or not held or found.holder.state() == "gone":
            raise nothing
        found.holder.end()
        return
    again = found is not None and held and found.holder.state() == "running"  # a retry, or a rescoring
    run = read_run(output)
    if (run.manifest is not None and not again) or not run.journals:
        raise nothing
    storage.write_whole(RunFolder(output).stop, reason.encode())
