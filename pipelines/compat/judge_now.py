"""Judging without a run: asks judges in this process, with the engine of all slow calls and without a journal."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from ...schemas.calls import Call
from ...schemas.config.calls import CallPolicy
from ...schemas.instance import Example, Instance, Invocation
from ...schemas.judging import Answer, Ask
from ...schemas.result import ScoredBatch
from ...transforms.calls.bundle import Bundle
from ...transforms.calls.engine import Engine
from ...transforms.calls.pending_call import CallGroup
from ...transforms.judge import JudgeCaller, JudgeUse, answer_of
from ...transforms.judges.base import Judge
from ...transforms.runtime.dialogue import Asking, play

T = TypeVar("T")
Make: TypeAlias = Callable[[list[Call]], list[Any]]
"""Makes calls, from any thread, and returns their outcomes in order."""
_NO_ROW = Example(Instance("00", {}), Invocation())


def judge_now(caller: JudgeCaller, batch: ScoredBatch) -> ScoredBatch:
    """Scores the judge metrics of a batch; timeouts and retries are those of the judges."""
    with calling(caller) as make:
        return judge_with(make, caller, batch)


def judge_with(make: Make, caller: JudgeCaller, batch: ScoredBatch) -> ScoredBatch:
    """Scores the judge metrics of a batch with judges that are connected already (`calling`)."""
    return play(caller.work(batch), make)


def ask_now(judge: Judge, policy: CallPolicy, asking: Asking[Ask, Answer, T], name: str = "default") -> T:
    """Asks the judge `name` the questions that `asking` yields, sends their answers back, and returns its result."""
    caller = JudgeCaller((), {name: JudgeUse(judge, policy)})
    with calling(caller) as make:

        def answer(asks: list[Ask]) -> list[Answer]:
            return [answer_of(outcome, whole=True) for outcome in make([caller.call(ask, _NO_ROW) for ask in asks])]

        return play(asking, answer)


@contextmanager
def calling(caller: JudgeCaller) -> Iterator[Make]:
    """A function that makes calls in this process and returns their outcomes in order."""
    engine, token = Engine.here(), uuid.uuid4().hex
    endpoints = caller.endpoints
    clients = engine.join_all(token, endpoints, caller.connect)

    def make(calls: list[Call]) -> list[Any]:
        bundle = Bundle(clients)
        bundle.submit(CallGroup(None, [None] * len(calls)), calls)
        bundle.wait_for_some()
        (group,) = bundle.finished()
        return group.outcomes

    try:
        yield make
    finally:
        for name in endpoints:
            engine.leave((token, name))
