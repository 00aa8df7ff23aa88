"""Judges in batch mode: their questions are handed over as files of requests, and the answers are taken in later."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import orjson

from ..schemas.calls import Call, CallPolicy, Outcome
from ..schemas.errors import RunError
from ..transforms import storage
from ..transforms.faults import RETRIED, fault_of, fault_of_status
from ..transforms.finish import STOP
from ..transforms.handoff import FOLDER, Batch, batches, gather
from ..transforms.journal import Journal, read_journal
from ..transforms.judge import JudgeUse, kept, question
from ..transforms.judges.base import BatchJudge, Job, Unanswered
from . import resume
from .judges import JUDGES

if TYPE_CHECKING:
    from .plan import Plan

_log = logging.getLogger(__name__)


def take_in(plan: Plan) -> None:
    """Brings the answers of batches that are done into the journal of votes.

    A call that failed for a passing reason is handed over again, until it has failed `max_attempts` times: that is an
    answer too, for the start of the run that learns of it.

    Raises:
        RunError: A file of results is none.
    """
    for name, use in _handed(plan).items():
        for batch in batches(_folder(plan, name)):
            job = _look(batch, use)
            for number, data in enumerate(job.results if job is not None else ()):
                batch.keep(number, data)
            if job is not None and job.trouble:
                _log.warning("judge %s: batch %s: %s", name, batch.folder, job.trouble)
            if paths := batch.results():
                _log.warning("judge %s: batch %s: %s", name, batch.folder, _take(plan, batch, paths, use))
            if (job is not None and job.done) or paths:
                batch.note(**{**batch.job, "state": "ended"})
            else:
                _log.warning("judge %s: batch %s: no answers yet", name, batch.folder)


def hand_over(plan: Plan) -> None:
    """Brings open questions into batches, as far as the budget goes, and submits those that were not yet."""
    if storage.exists(storage.join(plan.config.output.path, STOP)):
        return
    for name, use in _handed(plan).items():
        folder, judge = _folder(plan, name), _judge(use)
        gather(folder, lambda call, judge=judge: orjson.dumps(judge.batch_line(question(call))), _left(plan))
        for batch in batches(folder) if use.mode == "batch" else ():
            if batch.job["state"] != "going":
                _submit(batch, judge)
                _log.warning("judge %s: batch %s: handed over as %s", name, batch.folder, batch.job["id"])


def _handed(plan: Plan) -> Mapping[str, JudgeUse]:
    return {name: use for name, use in plan.judges.items() if use.mode != "live"}


def _folder(plan: Plan, name: str) -> str:
    return storage.join(plan.config.output.path, FOLDER, name)


def _judge(use: JudgeUse) -> BatchJudge:
    assert isinstance(use.judge, BatchJudge)
    return use.judge


def _look(batch: Batch, use: JudgeUse) -> Job | None:
    """How far a batch has come; `None` where nobody was given it."""
    job = batch.job
    if "id" not in job:
        return None
    with closing(_judge(use).batch_client()) as client:
        return client.look(job["id"])


def _submit(batch: Batch, judge: BatchJudge) -> None:
    """Submits a batch once: where a start was killed meanwhile, the provider is asked whether it has it."""
    begun = batch.job.get("name")
    with closing(judge.batch_client()) as client:
        name = begun or uuid.uuid4().hex
        known = client.find(name) if begun else None
        if known is None:
            batch.note(state="submitting", name=name)
            known = client.submit(name, batch.requests)
        batch.note(state="going", name=name, id=known)


def _left(plan: Plan) -> int | None:
    """Calls that the budget leaves, those on their way counted as made; `None` is no bound."""
    budget = resume.allot(plan)
    if budget is None:
        return None
    if budget.max_tokens is not None and budget.tokens >= budget.max_tokens:
        return 0
    if budget.max_calls is None:
        return None
    going = sum(1 for name in _handed(plan) for batch in batches(_folder(plan, name)) for _ in batch.calls())
    return max(0, budget.max_calls - budget.calls - going)


def _take(plan: Plan, batch: Batch, paths: list[str], use: JudgeUse) -> str:
    """Keeps the answers in some files; returns how many came to what."""
    calls = {call.key: call for call in batch.calls()}
    folder, count = storage.join(plan.config.output.path, resume.JOURNAL, JUDGES), Counter[str]()
    failed: Counter[str] | None = None
    with closing(Journal(folder, plan.start)) as settled, closing(Journal(folder, FOLDER)) as passing:
        for key, reply in _lines(paths, _judge(use)):
            call = calls.pop(key, None) if reply is not None else None
            if call is None:  # not worked on, told twice, or of another batch
                continue
            outcome = _outcome(reply, call, use.policy)
            count[outcome.kind] += 1
            journal = settled
            if outcome.kind in RETRIED:
                if failed is None:
                    failed = Counter(k for k, run, _ in read_journal(folder) if run == FOLDER)
                journal = settled if failed[key] + 1 >= use.policy.max_attempts else passing
            journal.add(call, outcome)
            journal.flush_if_due()
    return ", ".join(f"{n} {kind}" for kind, n in sorted(count.items())) + f", {len(calls)} without an answer"


def _lines(paths: list[str], judge: BatchJudge) -> Iterator[tuple[str, Any]]:
    for path in paths:
        for number, line in enumerate(storage.read_bytes(path).splitlines(), 1):
            if not line.strip():
                continue
            try:
                yield judge.batch_reply(orjson.loads(line))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                text = f"{type(error).__name__}: {error}"
                raise RunError(f"{path}, line {number}: no line of a batch's results: {text}") from None


def _outcome(reply: Any, call: Call, policy: CallPolicy) -> Outcome:
    """What a reply comes to: the same as that of a live call."""
    if isinstance(reply, Unanswered):
        fault = fault_of_status(*reply, policy.retry_on)
    else:
        try:
            return Outcome(kept(reply, call))
        except Exception as error:
            fault = fault_of(error, policy.retry_on)
    return Outcome(None, fault.kind, fault.error_type, fault.message, refused=int(fault.kind == "rate_limited"))
