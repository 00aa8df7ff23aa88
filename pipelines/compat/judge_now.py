"""Judges outside of a run: questions put to them here and now, by the engine of all slow calls; nothing is kept."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from ...schemas.config.calls import CallPolicy
from ...schemas.instance import Example, Instance, Invocation
from ...schemas.judging import Answer, Ask
from ...schemas.result import ScoredBatch
from ...transforms.calls.bundle import Bundle
from ...transforms.calls.engine import Engine
from ...transforms.calls.fanout import Work
from ...transforms.calls.pending_call import CallGroup
from ...transforms.judge import JudgeCaller, JudgeUse, answer_of
from ...transforms.judges.base import Judge

T = TypeVar("T")
_NO_ROW = Example(Instance("00", {}), Invocation())


def judged_now(caller: JudgeCaller, batch: ScoredBatch) -> ScoredBatch:
    """The batch with the scores of its judge metrics; timeouts and retries are those of the judges."""
    return _done(caller, caller.work(batch))


def asked_now(judge: Judge, policy: CallPolicy, asking: Generator[list[Ask], Sequence[Answer], T]) -> T:
    """What comes of questions to the judge "default"; yields them, is sent their answers in order, and returns it."""
    caller = JudgeCaller((), {"default": JudgeUse(judge, policy)})
    return _done(caller, _work(caller, asking))


def _work(caller: JudgeCaller, asking: Generator[list[Ask], Sequence[Answer], Any]) -> Work:
    answers: Any = None
    while True:
        try:
            asks = asking.send(answers)
        except StopIteration as done:
            return done.value
        calls = [caller.call(ask, _NO_ROW) for ask in asks]
        outcomes = yield calls
        answers = [answer_of(outcome, whole=True) for outcome in outcomes]


def _done(caller: JudgeCaller, work: Work) -> Any:
    """What work comes to whose calls are made here and now."""
    engine, token = Engine.here(), uuid.uuid4().hex
    endpoints = caller.endpoints
    clients = engine.join_all(token, endpoints, caller.connect)
    try:
        outcomes = None
        while True:
            try:
                calls = work.send(outcomes)  # type: ignore[arg-type]  (None starts a generator)
            except StopIteration as done:
                return done.value
            bundle = Bundle(clients)
            bundle.submit(CallGroup(None, [None] * len(calls)), calls)
            bundle.wait_for_some()
            (group,) = bundle.finished()
            outcomes = group.outcomes
    finally:
        for name in endpoints:
            engine.leave((token, name))
