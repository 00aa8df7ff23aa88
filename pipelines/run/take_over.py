"""What a start takes over from earlier ones: the calls that are paid for, never those of another agent.

The tables and the manifest of a finished run stay until a retry or a rescoring replaces them. A retry has a number,
which is stored before the first call and stands in the manifest that its end writes: one that was killed or stopped
goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import orjson

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.run_folder import FINGERPRINT_RECORD, FINISHED, JUDGES_RECORD, PENDING, STOPPED
from ...transforms.io import storage
from ...transforms.journal.run_state import RunState
from .inventory import Inventory
from .judges import judges_record
from .plan import Plan


@dataclass(frozen=True)
class TakeOver:
    """What a start takes over, and what it changes in the folder of the run before it calls anything.

    Attributes:
        run: What stands in the folder after the changes.
        fingerprint: What the agent's calls are journaled under; `None` if answers are recorded and nothing is called.
        drop: Folders that are removed, with what was paid for.
        delete: Files that are removed.
        write: Files that are written: path to content.
    """

    run: RunState
    fingerprint: str | None = None
    drop: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    write: Mapping[str, bytes] = field(default_factory=dict)

    def apply(self) -> None:
        """Makes the changes."""
        for folder in self.drop:
            storage.delete_folder(folder)
        storage.delete(list(self.delete))
        for path, content in self.write.items():
            storage.write_whole(path, content)


def decide(plan: Plan, inventory: Inventory) -> TakeOver:
    """Decides what a run, a retry or a rescoring takes over.

    A finished run is refused unless it may be overwritten, which drops what it paid for. An unfinished one resumes with
    the calls that are missing, even if it may be overwritten, unless its agent has changed since.

    Raises:
        ConfigError: There is a finished run, or answers of another agent; says what to do. Or a rescoring is of a run
            that has not finished, or a replayed run has no answers of this agent.
    """
    run, output = inventory.run, plan.config.output
    if plan.purpose == "rescore":
        return _rescore(plan, inventory)
    if plan.purpose == "retry" and run.manifest is not None:
        return _retry(plan, inventory, run.manifest)
    dropped = run.ended_as == FINISHED
    if dropped and not output.overwrite:
        raise _finished(output.path)
    taken = _take(plan, inventory, TakeOver(_drop(run) if dropped else run), output.overwrite)
    own = (run.folder.manifest,) if run.manifest is not None else ()
    return replace(taken, drop=_paid(run) if dropped else taken.drop, delete=(*own, run.folder.stop))


def _retry(plan: Plan, inventory: Inventory, manifest: Mapping[str, Json]) -> TakeOver:
    run = inventory.run
    goes_on = run.retry > manifest.get("retry", 0) or (run.retry > 0 and manifest["state"] in (STOPPED, PENDING))
    taken = _take(plan, inventory, TakeOver(run, delete=(run.folder.stop,)))
    if goes_on:
        return taken
    number = {run.folder.retries: orjson.dumps(run.retry + 1)}
    return replace(taken, run=replace(taken.run, retry=run.retry + 1), write={**taken.write, **number})


def _rescore(plan: Plan, inventory: Inventory) -> TakeOver:
    run = inventory.run
    if run.manifest is None or run.ended_as != FINISHED:
        found = f"no finished run at {plan.config.output.path!r}"
        raise ConfigError(found, where="rescore", allowed="the output folder of one; `evalbeam run` resumes another")
    own, as_it_is = run.manifest["fingerprint"], TakeOver(run, delete=(run.folder.stop,))
    if plan.recorded or own is None or plan.config.replay is not None:
        return _take(plan, inventory, as_it_is)
    _require_same_agent(run.agents[own], fingerprint_parts(plan, inventory.source))
    return _with_votes(plan, replace(as_it_is, fingerprint=own))


def _require_same_agent(then: Mapping[str, Json], now: Mapping[str, Json]) -> None:
    """Refuses another agent than the one whose answers are there; its source file may have changed since."""
    changed = [key for key in sorted({*then, *now} - {"source"}) if then.get(key) != now.get(key)]
    if changed:
        found = f"the configuration names another agent ({', '.join(changed)} changed)"
        allowed = "the agent whose answers are in the folder; `evalbeam run` with another output.path calls another"
        raise ConfigError(found, where="rescore: agent", allowed=allowed)


def _take(plan: Plan, inventory: Inventory, taken: TakeOver, overwrite: bool = False) -> TakeOver:
    """Adds the fingerprint of the agent's calls, and the records that say whose calls and votes they are.

    Raises:
        ConfigError: There are answers of another agent, which may not be overwritten.
    """
    output, run = plan.config.output, taken.run
    if plan.recorded:
        return _with_votes(plan, taken)
    if plan.config.replay is not None:
        return _with_votes(plan, replace(taken, fingerprint=_replayed(plan, inventory)))
    parts = fingerprint_parts(plan, inventory.source)
    own = fingerprint(parts)
    if run.agents and own not in run.agents:
        if output.resume_anyway:
            return _with_votes(plan, replace(taken, fingerprint=next(iter(run.agents))))
        if not overwrite:
            raise _changed(output.path, parts, next(iter(run.agents.values())))
        taken = replace(taken, run=_drop(run), drop=_paid(run))
    if own not in taken.run.agents:
        record = storage.join(run.folder.agent_journal(own), FINGERPRINT_RECORD)
        taken = replace(taken, write={**taken.write, record: orjson.dumps(parts)})
    return _with_votes(plan, replace(taken, fingerprint=own))


def _with_votes(plan: Plan, taken: TakeOver) -> TakeOver:
    """Takes over the votes that a run has paid for: says beside them which judges they are of."""
    if not plan.judges:
        return taken
    path = storage.join(plan.folder.judge_journal, JUDGES_RECORD)
    return replace(taken, write={**taken.write, path: judges_record(plan.judges, plan.judged)})


def _replayed(plan: Plan, inventory: Inventory) -> str:
    """The fingerprint under which the run that is replayed has its calls: that of the same agent, or the only one.

    Raises:
        ConfigError: There is none, or several of other agents.
    """
    folder, earlier = plan.config.replay, inventory.replayed
    own = fingerprint(fingerprint_parts(plan, inventory.source))
    if own in earlier or len(earlier) == 1:
        return own if own in earlier else next(iter(earlier))
    found = (
        f"{folder} has answers of {len(earlier)} agents, none of them this one"
        if earlier
        else f"no journal at {folder}"
    )
    raise ConfigError(found, where="replay", allowed="the output folder of a run that called this agent")


def fingerprint_parts(plan: Plan, source: str | None) -> dict[str, Json]:
    """The parts of an agent's identity: its configuration, and the source of its own module."""
    agent = plan.config.agent
    shown = plan.shown_config()["agent"]
    own = {"type": agent.type, "target": shown.get("target"), "version": agent.version}
    return {
        **own,
        **{k: shown.get(k) for k in sorted(agent.params)},
        **({"model": agent.model} if agent.model is not None and hasattr(plan.agent, "model") else {}),
        "source": None if agent.type == "gemini" else source,
    }


def fingerprint(parts: Mapping[str, Json]) -> str:
    """16 hexadecimal digits that stand for the parts."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def state(plan: Plan, inventory: Inventory) -> str:
    """Returns the state of a plan's output.

    Returns:
        "new"; "finished"; "unfinished" if this agent's answers are taken over; "changed" if another agent's are
        in the way.
    """
    run = inventory.run
    if run.ended_as == FINISHED:
        return "finished"
    earlier = {} if plan.recorded or plan.config.replay else run.agents
    if not earlier:
        return "unfinished" if plan.judges and run.judged else "new"
    return "unfinished" if fingerprint(fingerprint_parts(plan, inventory.source)) in earlier else "changed"


def _paid(run: RunState) -> tuple[str, ...]:
    """What was paid for, and what was handed over."""
    return run.folder.journals, run.folder.batches


def _drop(run: RunState) -> RunState:
    return RunState(run.folder, run.manifest)


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
