"""The way of calls to a batch interface and back: handed over as files of requests, their answers taken in later."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from ...schemas.calls import Call, Outcome
from ...schemas.config.calls import CallPolicy
from ...schemas.errors import EvalbeamError, RunError
from ...schemas.json import Json
from ...schemas.usage import share_cost
from ..batch_api.base import BatchClient, Batched, Job, Unanswered
from ..batch_api.outbox import Batch, batches, gather, handed
from ..io import storage
from ..journal.journal import BATCH, Journal
from .budget import Bounds
from .errors import RETRIED, classify_error, classify_status
from .paid import PaidCalls

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchRoute:
    """The way of the calls of an agent or a judge to its batch API and back.

    Attributes:
        title: Name for messages.
        kind: Kind for messages.
        where: Key of its section in the configuration.
        folder: Folder of its batches.
        journal: Folder of the journal that takes its answers.
        policy: Retries and limits.
        mode: "batch", "batch_files" or "live".
        callee: The agent or judge; it knows the formats of its provider.
        asked: Returns the arguments of a live call.
        kept: Returns what the journal keeps of a reply; raises what a live call would raise.
    """

    title: str
    kind: str
    where: str
    folder: str
    journal: str
    policy: CallPolicy
    mode: str
    callee: Any
    asked: Callable[[Call], Any]
    kept: Callable[[Any, Call], Json]

    def line(self, call: Call) -> bytes:
        """The provider's line for a call."""
        return orjson.dumps(self.callee.batch_line(self.asked(call), call.key))

    def tell(self, batch: Batch, text: str) -> None:
        """Says what became of a batch."""
        _log.warning("%s: batch %s: %s", self.title, batch.folder, text)


def take_in(routes: Sequence[BatchRoute], start: str, paid: PaidCalls) -> None:
    """Reads the results of finished batches into the journals.

    A call that failed for a passing reason goes into the next batch, until it has failed `max_attempts` times. Then the
    failure is its outcome.

    Args:
        routes: The ways of all callees that are or were in batch mode.
        start: Stands for this start in the journals.
        paid: Counts what is taken in.

    Raises:
        RunError: A result file cannot be read, or the provider cannot be reached.
    """
    for route in routes:
        for batch in batches(route.folder):
            job = _look(batch, route)
            if job is not None and not job.done:
                route.tell(batch, "no answers yet")
                continue
            for number, data in enumerate(job.results if job is not None else ()):
                batch.keep(number, data)
            if job is not None and job.trouble:
                route.tell(batch, job.trouble)
            if paths := batch.results():
                route.tell(batch, _take(start, batch, paths, route, paid))
            if job is not None or paths:
                batch.note(**{**batch.job, "state": "ended"})
            else:
                route.tell(batch, "no answers yet")


def look_for_answers(routes: Sequence[BatchRoute]) -> bool | None:
    """Returns true if a batch has answers that no start has taken in yet, and `None` if no batch is on its way.

    Raises:
        RunError: The provider cannot be reached.
    """
    waits = False
    for route in routes:
        for batch in batches(route.folder):
            job = _look(batch, route)
            if batch.results() or (job is not None and job.done):
                return True
            waits = True
    return False if waits else None


def hand_over(routes: Sequence[BatchRoute], bounds: Bounds, paid: PaidCalls, stop: str) -> None:
    """Writes open calls into batches, as far as the budget allows, and submits the batches.

    Args:
        routes: The ways of all callees in batch mode.
        bounds: The bounds of the budget.
        paid: What was paid for.
        stop: The object whose presence stops the run's calls.

    Raises:
        RunError: The provider refused a batch, or did not answer. If it has the batch all the same, the next start
            finds it.
    """
    if not routes or storage.exists(stop):
        return
    for route in routes:
        gather(route.folder, route.line, _left(routes, bounds, paid))
        for batch in batches(route.folder) if route.mode == "batch" else ():
            if batch.job["state"] != "going":
                _submit(batch, route, {id_ for each in routes for id_ in handed(each.folder)})
                route.tell(batch, f"handed over as {batch.job['id']}")


def _look(batch: Batch, route: BatchRoute) -> Job | None:
    """The provider's state of a batch; `None` if it was never submitted."""
    job = batch.job
    if "id" not in job:
        return None
    with _reached(batch, route) as client:
        return client.look(job["id"])


def _submit(batch: Batch, route: BatchRoute, others: set[str]) -> None:
    """Submits a batch once: after a kill the provider is asked first whether it already has it."""
    begun = batch.job.get("name")
    with _reached(batch, route) as client:
        name = begun or uuid.uuid4().hex
        known = client.find(name, batch.requests, others) if begun else None
        if known is None:
            batch.note(state="submitting", name=name)
            known = client.submit(name, batch.requests)
        batch.note(state="going", name=name, id=known)


@contextmanager
def _reached(batch: Batch, route: BatchRoute) -> Iterator[BatchClient]:
    """Opens the provider's client for one operation on a batch.

    Raises:
        RunError: The operation failed.
    """
    try:
        with closing(route.callee.batch_client()) as client:
            yield client
    except EvalbeamError:
        raise
    except Exception as error:  # each provider's client has exceptions of its own
        fault = classify_error(error)
        raise RunError(f"{route.title}: batch {batch.folder}: {fault.error_type}: {fault.message}") from error


def _left(routes: Sequence[BatchRoute], bounds: Bounds, paid: PaidCalls) -> int | None:
    """Calls that the budget leaves, with submitted ones counted as made; `None` if it has no bound."""
    budget = paid.budget(bounds)
    if budget is None:
        return None
    if budget.spent():
        return 0
    if budget.max_calls is None:
        return None
    going = sum(batch.size() for route in routes for batch in batches(route.folder))
    return max(0, budget.max_calls - budget.calls - going)


def _take(start: str, batch: Batch, paths: list[str], route: BatchRoute, paid: PaidCalls) -> str:
    """Keeps the answers in result files; returns the number of each kind in words."""
    calls: dict[str, list[Call]] = {}
    for call in batch.calls():
        calls.setdefault(call.key, []).append(call)
    folder, count = route.journal, Counter[str]()
    failed = paid.failed(folder)
    with closing(Journal(folder, start)) as settled, closing(Journal(folder, BATCH)) as passing:
        for key, reply in _lines(paths, route.callee):
            same = calls.pop(key, ()) if reply is not None else ()
            if not same:  # not worked on, told twice, or of another batch
                continue
            outcome = _outcome(reply, same[0], route)
            count[outcome.kind] += len(same)
            journal = settled
            if outcome.kind in RETRIED:
                attempts = failed[key] // len(same) + 1
                if attempts < route.policy.max_attempts:
                    journal = passing
                    failed[key] += len(same)
            for place, call in enumerate(same):
                told = share_cost(outcome) if place else outcome
                journal.add(call, told)
                paid.add(told)
            journal.flush_if_due()
    came = [f"{n} {kind}" for kind, n in sorted(count.items())]
    return ", ".join([*came, f"{sum(map(len, calls.values()))} without an answer"])


def _lines(paths: list[str], callee: Batched) -> Iterator[tuple[str, Any]]:
    for path in paths:
        for number, line in enumerate(storage.read_bytes(path).splitlines(), 1):
            if not line.strip():
                continue
            try:
                yield callee.batch_reply(orjson.loads(line))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                text = f"{type(error).__name__}: {error}"
                raise RunError(f"{path}, line {number}: no line of a batch's results: {text}") from None


def _outcome(reply: Any, call: Call, route: BatchRoute) -> Outcome:
    """The outcome of a reply, as a live call would have had."""
    if isinstance(reply, Unanswered):
        fault = classify_status(*reply, route.policy.retry_on)
    else:
        try:
            return Outcome(route.kept(reply, call))
        except Exception as error:
            fault = classify_error(error, route.policy.retry_on)
    refused = int(fault.kind == "rate_limited")
    return Outcome(fault.spent, fault.kind, fault.error_type, fault.message, refused=refused)
