"""Judge metrics outside of a run: a batch's questions put to judges here and now, by the engine of all slow calls."""

from __future__ import annotations

import uuid

from ..schemas.result import ScoredBatch
from .bundle import Bundle
from .engine import Engine
from .judge import JudgeCaller
from .lane import Ticket


def judged_now(caller: JudgeCaller, batch: ScoredBatch) -> ScoredBatch:
    """The batch with the scores of its judge metrics; timeouts and retries are those of the judges, nothing is kept."""
    engine, token = Engine.here(), uuid.uuid4().hex
    endpoints = caller.endpoints
    lines = engine.join_all(token, endpoints, caller.connect)
    try:
        work, outcomes = caller.work(batch), None
        while True:
            try:
                calls = work.send(outcomes)  # type: ignore[arg-type]  (None starts a generator)
            except StopIteration as done:
                return done.value
            bundle = Bundle(lines)
            bundle.submit(Ticket(None, [None] * len(calls)), calls)
            bundle.wait_for_some()
            (ticket,) = bundle.finished()
            outcomes = ticket.outcomes
    finally:
        for name in endpoints:
            engine.leave((token, name))
