"""Resumes unfinished runs: finds the calls that are paid for, and refuses to mix the answers of different agents."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.run_folder import FINGERPRINT_RECORD, FINISHED, JUDGES_RECORD, RunFolder
from ...transforms import registry
from ...transforms.agents.base import is_address
from ...transforms.io import storage
from ...transforms.journal.journal import compact
from ..runners import lease
from .judges import judges_record
from .paid import earlier_agents, journals, judge_journals
from .result import manifest_at

if TYPE_CHECKING:
    from .plan import Plan


def fingerprint_parts(plan: Plan) -> dict[str, Json]:
    """The parts of an agent's identity: its configuration, and the source of its own module."""
    agent = plan.config.agent
    shown = plan.shown_config()["agent"]
    own = {"type": agent.type, "target": shown.get("target"), "version": agent.version}
    return {
        **own,
        **{k: shown.get(k) for k in sorted(agent.params)},
        **({"model": agent.model} if agent.model is not None and hasattr(plan.agent, "model") else {}),
        "source": None if agent.type == "gemini" else source_of(agent.target),
    }


def fingerprint(parts: Mapping[str, Json]) -> str:
    """16 hexadecimal digits that stand for the parts."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def source_of(target: Any) -> str | None:
    """sha256 of the file of the module that a target stands in, or of the sources below a folder that it is; `None`
    where there is no such file."""
    if target is None or is_address(target):
        return None
    if isinstance(target, str) and os.path.isdir(target):
        sources = sorted(p for p in Path(target).rglob("*") if p.suffix in (".py", ".yaml"))
        return hashlib.sha256(b"".join(hashlib.sha256(p.read_bytes()).digest() for p in sources)).hexdigest()
    found = registry.load_object(target, "agent.target") if isinstance(target, str) else target
    module = sys.modules.get(target.partition(":")[0]) if isinstance(target, str) else inspect.getmodule(found)
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def prepare(plan: Plan) -> str | None:
    """Makes an output ready for a run and returns the fingerprint its calls are journaled under.

    A finished run is refused unless it may be overwritten, which drops what it paid for. An unfinished one
    resumes with the calls that are missing, even if it may be overwritten, unless its agent has changed since.

    Returns:
        The fingerprint; `None` if answers are recorded and nothing is called.

    Raises:
        ConfigError: There is a finished run, or an unfinished run of another agent; says what to do.
    """
    output = plan.config.output
    folder = plan.folder
    if ended_as(output.path) == FINISHED:
        if not output.overwrite:
            raise _finished(output.path)
        _drop(output.path)
    storage.delete([folder.manifest, folder.stop])
    return take_over(plan, output.overwrite)


def take_over(plan: Plan, overwrite: bool = False) -> str | None:
    """Takes over what a run has paid for; returns the fingerprint its calls are journaled under, see `prepare`.

    Args:
        plan: The run.
        overwrite: Drop the answers of another agent.

    Raises:
        ConfigError: There are answers of another agent.
    """
    output, folder = plan.config.output, plan.folder
    take_over_votes(plan)
    if plan.recorded:
        return None
    if plan.config.replay is not None:
        return replayed(plan)
    parts = fingerprint_parts(plan)
    own, earlier = fingerprint(parts), earlier_agents(folder.journals)
    if earlier and own not in earlier:
        if output.resume_anyway:
            return next(iter(earlier))
        if not overwrite:
            raise _changed(output.path, parts, next(iter(earlier.values())))
        _drop(output.path)
    if own not in earlier:
        storage.write_whole(storage.join(folder.agent_journal(own), FINGERPRINT_RECORD), orjson.dumps(parts))
    return own


def take_over_votes(plan: Plan) -> None:
    """Takes over the votes that a run has paid for: says beside them which judges they are of."""
    if plan.judges:
        path = storage.join(plan.folder.judge_journal, JUDGES_RECORD)
        storage.write_whole(path, judges_record(plan.judges, plan.judged))


def replayed(plan: Plan) -> str:
    """The fingerprint under which the run that is replayed has its calls: that of the same agent, or the only one.

    Raises:
        ConfigError: There is none, or several of other agents.
    """
    folder = str(plan.config.replay)
    earlier, own = earlier_agents(RunFolder(folder).journals), fingerprint(fingerprint_parts(plan))
    if own in earlier or len(earlier) == 1:
        return own if own in earlier else next(iter(earlier))
    found = (
        f"{folder} has answers of {len(earlier)} agents, none of them this one"
        if earlier
        else f"no journal at {folder}"
    )
    raise ConfigError(found, where="replay", allowed="the output folder of a run that called this agent")


def compact_all(output: str) -> int:
    """Brings the journals of a finished run into one file each; returns the number of their records.

    Raises:
        ConfigError: The run is not finished.
    """
    if ended_as(output) != FINISHED:
        raise ConfigError(f"no finished run at {output!r}", where="--compact", allowed="the output folder of one")
    return sum(compact(folder) for folder in journals(output))


def state(plan: Plan) -> str:
    """Returns the state of a plan's output without changing it.

    Returns:
        "new"; "finished"; "unfinished" if this agent's answers are taken over; "changed" if another agent's are
        in the way.
    """
    path = plan.config.output.path
    if ended_as(path) == FINISHED:
        return "finished"
    earlier = {} if plan.recorded or plan.config.replay else earlier_agents(plan.folder.journals)
    if not earlier:
        return "unfinished" if plan.judges and judge_journals(path) else "new"
    return "unfinished" if fingerprint(fingerprint_parts(plan)) in earlier else "changed"


def ended_as(output: str) -> str | None:
    """State in the manifest of a run; `None` if there is no manifest yet."""
    return (manifest_at(output) or {}).get("state")


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
    if now:
        found = lease.latest(output)
        if found is None or found.released or found.holder.state() == "gone":
            raise nothing
        found.holder.end()
        return
    holder = lease.latest(output)
    again = holder is not None and not holder.released and holder.holder.state() == "running"  # a retry, or a rescoring
    if (ended_as(output) is not None and not again) or not journals(output):
        raise nothing
    storage.write_whole(RunFolder(output).stop, reason.encode())


def _drop(output: str) -> None:
    """Drops what was paid for, and what was handed over."""
    folder = RunFolder(output)
    for path in (folder.journals, folder.batches):
        storage.delete_folder(path)


def _finished(output: str) -> ConfigError:
    ways = (
        f"`evalbeam retry {output}` to call its failed rows again",
        f"`evalbeam rescore {output} CONFIG` to score its answers with other metrics or criteria",
        "another path",
        "--overwrite to call all rows again",
    )
    return ConfigError(f"{output} holds a finished run", where="output.path", allowed=", ".join(ways))


def _changed(output: str, now: Mapping[str, Json], then: Mapping[str, Json]) -> ConfigError:
    names = {"source": "the source of its module"}
    changed = [names.get(k, k) for k in sorted({*now, *then}) if now.get(k) != then.get(k)]
    found = f"{output} holds answers of another agent ({', '.join(changed)} changed)"
    allowed = "another path, --overwrite to call all rows again, --resume-anyway to keep the answers so far"
    return ConfigError(found, where="output.path", allowed=allowed)
