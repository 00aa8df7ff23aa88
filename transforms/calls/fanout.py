"""Slow calls from a Beam step: many in flight in each worker process, across batches, without a barrier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import apache_beam as beam
import orjson
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsSingleton
from apache_beam.utils.windowed_value import WindowedValue

from ...schemas.batch import Batch
from ...schemas.calls import Call, Outcome
from ...schemas.config.calls import CallPolicy
from ..batch_api.outbox import BatchOutbox
from ..journal.journal import Journal
from ..journal.several import Journals, open_journals
from ..runtime import counters
from ..runtime.dialogue import Asking, Dialogue
from .budget import SpendTracker
from .bundle import Bundle
from .context import RunContext
from .endpoint_client import EndpointClient
from .engine import Engine
from .pending_call import CallGroup
from .stop import StopFlag

_MAX_HELD = 32_768
_MOST_SLACK = 4096
_BESIDE_VALUE = 200  # bytes of a record beside its value, more or less
NO_ANSWER = "not called: the replayed run has no answer"
_LACKING = Outcome(kind="not_called", error_type="NotCalled", error_message=NO_ANSWER, attempts=0)
_CALLS, _FAILED, _RETRIES = (Metrics.counter("evalbeam", name) for name in ("calls", "failed", "retries"))
_THROTTLED = Metrics.counter("evalbeam", "cumulativeThrottlingSeconds")  # so named, no autoscaler adds workers for it


Work: TypeAlias = Asking[Call, Outcome, Any]
"""The work on one batch: a generator that yields calls, is sent their outcomes, and returns the batch that leaves the
step."""


class Caller(Protocol):
    """Someone who makes calls for the rows of batches; agents are one, judges another. It travels to the workers.

    Attributes:
        endpoints: How the calls of each endpoint are made. The name is that of a queue: all who call an endpoint share
            its window in each worker process.
    """

    @property
    def endpoints(self) -> Mapping[str, CallPolicy]: ...

    def connect(self, endpoint: str) -> Callable[[Call], Any]:
        """Makes the callable of an endpoint, once in each worker process and not before its first call.

        A coroutine function runs on the event loop, any other callable on threads. It returns JSON, a mapping with
        `usage` if tokens are to be counted; an exception is the failure of the call.
        """
        ...

    def work(self, batch: Any) -> Work:
        """Starts the work on a batch. It runs on the bundle's thread, so it must not block."""
        ...


@dataclass
class FanOut(beam.PTransform):
    """PCollection[Batch] -> PCollection[Batch], one for one, in any order; a batch leaves when all its calls ended.

    Attributes:
        caller: What is called, and how rows and calls belong together.
        context: The start of the run. Its `stop` object is written if a breaker trips, and looked for now and then; the
            calls that are left then have kind "not_called". If its budget is spent, they have kind "over_budget".
        journal: Folder where finished calls are kept and found again; `None` keeps nothing.
        gives: Type of the batches that leave.
        replayed: Journals of other runs that have all the answers there are of an endpoint: none of its calls is made,
            and those the journal lacks have kind "not_called".
        handed: Folders of the endpoints whose calls are handed over there, see `outbox`, instead of being made: they
            have kind "not_called" until the journal knows their answers.
        journals: Folders of the journals of endpoints that have their own, if there is a `journal`.
        closed: Singleton side input: the reason why no call is made any more, as text; "" makes them. Calls of which
            the journal has no record then have kind "not_called"; those that failed before are made again.
    """

    caller: Caller
    context: RunContext = field(default_factory=RunContext)
    journal: str | None = None
    gives: type = Batch
    replayed: Mapping[str, str] = field(default_factory=dict)
    handed: Mapping[str, str] = field(default_factory=dict)
    journals: Mapping[str, str] = field(default_factory=dict)
    closed: AsSingleton | None = None

    # Any: what enters and leaves depends on the caller
    def expand(self, input_or_inputs: beam.PCollection[Any]) -> beam.PCollection[Any]:
        outbox = BatchOutbox(self.handed)
        step = _MakeCalls(self.caller, self.context, self.journal, self.journals, self.replayed, outbox)
        sides = () if self.closed is None else (self.closed,)
        return input_or_inputs | "Call" >> beam.ParDo(step, *sides).with_output_types(self.gives)  # type: ignore[return-value]  (`|` gives a PValue)


class _Task(NamedTuple):
    dialogue: Dialogue[Call, Outcome, Any]
    timestamp: Any
    window: Any


class _MakeCalls(beam.DoFn):
    def __init__(
        self,
        caller: Caller,
        context: RunContext,
        folder: str | None,
        journals: Mapping[str, str],
        replayed: Mapping[str, str],
        outbox: BatchOutbox,
    ) -> None:
        self._caller, self._context, self._folder, self._journals = caller, context, folder, journals
        self._replayed, self._outbox = replayed, outbox
        self._elsewhere: dict[str, Journal] = {}
        self._spending: SpendTracker | None = None
        self._stop_flag: StopFlag | None = None
        self._journal: Journal | Journals | None = None
        self._closed: Outcome | None = None
        self._throttled = 0.0
        self._engine: Engine | None = None
        self._clients: dict[str, EndpointClient] = {}
        self._bundle: Bundle | None = None

    def setup(self) -> None:
        caller, engine = self._caller, Engine.here()
        self._engine = engine
        budget = self._context.budget
        self._spending = None if budget is None else engine.spending(budget)
        self._clients = engine.join_all(self._context.start, caller.endpoints, caller.connect, self._spending)

    def start_bundle(self) -> None:
        self._drop()  # what an aborted bundle left
        self._throttled = self._throttling()
        stop = self._context.stop
        self._stop_flag = None if stop is None else StopFlag(stop)
        self._closed = None
        self._journal = open_journals(self._folder, self._journals, self._context.start)
        self._elsewhere = {name: Journal(folder, None) for name, folder in self._replayed.items()}
        if (keep := self._journal) is None:
            self._bundle = Bundle(self._clients, _size, self._tick)
        else:
            self._bundle = Bundle(self._clients, keep.add, self._tick, keep.due, keep.full)
        self._tick()

    def process(  # type: ignore[no-untyped-def]
        self, batch: Any, timestamp=beam.DoFn.TimestampParam, window=beam.DoFn.WindowParam, closed: str = ""
    ):
        bundle = self._bundle
        assert bundle is not None
        self._closed = replace(_LACKING, error_message=f"not called: {closed}") if closed else None
        yield from self._continue(bundle, _Task(Dialogue(self._caller.work(batch)), timestamp, window))
        bundle.wait_for_room(self._slack, max(_MAX_HELD, 64 * self._places))
        self._tick()
        yield from self._leaving(bundle)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        bundle = self._bundle
        assert bundle is not None
        while bundle.open:
            bundle.wait_for_some()
            self._tick()
            yield from self._leaving(bundle)
        self._bundle = None
        self._tick()
        self._keep()

    def teardown(self) -> None:
        self._drop()
        if self._engine is not None:
            for name in self._clients:
                self._engine.leave((self._context.start, name))
            self._engine, self._clients = None, {}

    def _drop(self) -> None:
        if self._bundle is not None:
            self._bundle.cancel()
            self._bundle = None
            self._keep()

    def _keep(self) -> None:
        """Writes finished calls to the journal and reports spending, however the bundle ended."""
        self._outbox.flush()
        if self._journal is not None:
            self._journal.close()
        if self._spending is not None:
            self._spending.exchange(now=True)

    def _tick(self) -> None:
        """Flushes the journal, exchanges spending and checks the stop object, if due; also while the bundle waits."""
        if self._journal is not None and self._journal.flush_if_due() and self._bundle is not None:
            self._bundle.go_on()
        if self._spending is not None:
            self._spending.exchange()
        if self._stop_flag is None:
            return
        clients = self._clients.values()
        reason = self._stop_flag.seen() or next(
            (client.stopped for client in clients if client.stopped is not None), None
        )
        if reason is not None:
            self._stop_flag.put(reason)
            for client in clients:
                if client.stopped is None:
                    client.queue.post(client.queue.stop, client, reason)

    @property
    def _places(self) -> int:
        return sum(policy.max_in_flight for policy in self._caller.endpoints.values())

    @property
    def _slack(self) -> int:
        """Calls queued beyond the window, so that a place that is freed while this thread is elsewhere finds a call.

        It is elsewhere while batches that have left are scored, which takes longer than twice a window of quick calls.
        """
        return 256 + max(2 * self._places, min(8 * self._places, _MOST_SLACK))

    def _leaving(self, bundle: Bundle) -> Iterator[WindowedValue]:
        for group in bundle.finished():
            outcomes: list[Any] = group.outcomes
            self._count(outcomes)
            if (prices := self._context.prices) is not None and counters.is_watched():
                counters.add("spent", prices.add_up(group.item.dialogue.asked or (), outcomes))
            group.item.dialogue.answer(outcomes)
            yield from self._continue(bundle, group.item)

    def _continue(self, bundle: Bundle, task: _Task) -> Iterator[WindowedValue]:
        """Submits the calls that a batch waits for; without any, the batch leaves."""
        calls = task.dialogue.asked
        if calls is None:
            yield WindowedValue(task.dialogue.result, task.timestamp, (task.window,))
            return
        bundle.submit(CallGroup(task, self._known(calls)), calls)

    def _known(self, calls: list[Call]) -> list[Outcome | None]:
        """The known outcome of each call, from a journal or because it is not made here; `None` if it must be made."""
        known: list[Outcome | None] = [None] * len(calls)
        if not (self._journal or self._replayed or self._outbox.folders or self._closed):
            return known
        prefixes = [call.prefix for call in calls]
        for i in sorted(range(len(calls)), key=prefixes.__getitem__):  # a journal has a part of its folders in memory
            known[i] = self._find(calls[i])
        return known

    def _find(self, call: Call) -> Outcome | None:
        if (elsewhere := self._elsewhere.get(call.endpoint)) is not None:
            return elsewhere.find(call) or _LACKING
        found = None if self._journal is None else self._journal.find(call)
        return found or self._left(call) or self._outbox.take(call)

    def _left(self, call: Call) -> Outcome | None:
        """The outcome of a call that is not made since calls have ended; one that failed before is made again."""
        tried = self._closed is not None and self._journal is not None and self._journal.tried(call)
        return None if tried else self._closed

    def _throttling(self) -> float:
        return sum(client.queue.throttled for client in self._clients.values())

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        made = [o.attempts for o in outcomes if not o.replayed]
        _CALLS.inc(len(made))
        _FAILED.inc(len(outcomes) - [o.kind for o in outcomes].count("ok"))
        _RETRIES.inc(sum(made) - len(made) + made.count(0))
        seconds = int(self._throttling() - self._throttled)
        if seconds > 0:
            self._throttled += seconds
            _THROTTLED.inc(seconds)


def _size(_: Call, outcome: Outcome) -> int:
    return _BESIDE_VALUE + len(orjson.dumps(outcome.value))
