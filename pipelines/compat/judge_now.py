"""Judging without a run: asks judges in this process, with the engine of all slow calls and without a journal."""

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


def judge_now(caller: JudgeCaller, batch: ScoredBatch) -> ScoredBatch:
    """Scores the judge metrics of a batch; timeouts and retries are those of the judges."""
    return _run_work(caller, caller.work(batch))


def ask_now(judge: Judge, policy: CallPolicy, asking: Generator[list[Ask], Sequence[Answer], T]) -> T:
    """Asks the judge "default" the questions that `asking` yields, sends their answers back, and returns its result."""
    caller = JudgeCaller((), {"default": JudgeUse(judge, policy)})
    return _run_work(caller, _ask(caller, asking))


def _ask(caller: JudgeCaller, asking: Generator[list[Ask], Sequence[Answer], Any]) -> Work:
    answers: Any = None
    while True:
        try:
            asks = asking.send(answers)
        except StopIteration as done:
            return done.value
        calls = [caller.call(ask, _NO_ROW) for ask in asks]
        outcomes = yield calls
        answers = [answer_of(outcome, whole=True) for outcome in outcomes]


def _run_work(caller: JudgeCaller, work: Work) -> Any:
    """Makes the calls that `work` yields in this process; returns the result of `work`."""
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
