"""A finished run once more: its failed calls are made again, or its answers get other scores.

The tables and the manifest of the finished run stay until the new ones replace them. A retry has a number, which is
stored before the first call and stands in the manifest that its end writes: one that was killed or stopped goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.run_folder import FINGERPRINT_RECORD, FINISHED, PENDING, STOPPED
from ...transforms.io import storage
from .paid import PaidCalls, retries
from .result import manifest_at
from .resume import fingerprint_parts, prepare, take_over, take_over_votes

if TYPE_CHECKING:
    from .plan import Plan


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
    manifest = manifest_at(output)
    return manifest is not None and manifest["state"] == FINISHED and not PaidCalls(output).without_answer


def begin(plan: Plan) -> str | None:
    """Makes an output ready for a run, a retry or a rescoring; returns the fingerprint of its calls, see `prepare`.

    Raises:
        ConfigError: As for `prepare`; or a rescoring is of a run that has not finished, or of another agent's answers.
    """
    manifest = None if plan.purpose == "run" else manifest_at(plan.config.output.path)
    if plan.purpose == "rescore":
        return _begin_rescoring(plan, manifest or {})
    if manifest is None:
        return prepare(plan)
    number, written = retries(plan.config.output.path), manifest.get("retry", 0)
    goes_on = number > written or (number > 0 and manifest["state"] in (STOPPED, PENDING))
    own = take_over(plan)
    if not goes_on:
        storage.write_whole(plan.folder.retries, orjson.dumps(number + 1))
    storage.delete([plan.folder.stop])
    return own


def _begin_rescoring(plan: Plan, manifest: Mapping[str, Json]) -> str | None:
    if manifest.get("state") != FINISHED:
        found = f"no finished run at {plan.config.output.path!r}"
        raise ConfigError(found, where="rescore", allowed="the output folder of one; `evalbeam run` resumes another")
    own = manifest["fingerprint"]
    if plan.recorded or own is None or plan.config.replay is not None:
        own = take_over(plan)
    else:
        _require_same_agent(plan, own)
        take_over_votes(plan)
    storage.delete([plan.folder.stop])
    return own


def _require_same_agent(plan: Plan, own: str) -> None:
    """Refuses another agent than the one whose answers are there; its source file may have changed since."""
    record = storage.join(plan.folder.agent_journal(own), FINGERPRINT_RECORD)
    then, now = orjson.loads(storage.read_bytes(record)), fingerprint_parts(plan)
    changed = [key for key in sorted({*then, *now} - {"source"}) if then.get(key) != now.get(key)]
    if changed:
        found = f"the configuration names another agent ({', '.join(changed)} changed)"
        allowed = "the agent whose answers are in the folder; `evalbeam run` with another output.path calls another"
        raise ConfigError(found, where="rescore: agent", allowed=allowed)
