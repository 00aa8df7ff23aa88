"""The budget of a run for calls, counted over all its worker processes and all its starts."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from ..io import storage
from .stop import OVER_BUDGET, POLL

_SPENT = {"max_calls": "made", "max_tokens": "used"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The bounds of a budget. Whoever asks whether a budget is enough asks here.

    Attributes:
        max_calls: Most attempts of all calls, except those refused for the rate; `None` is no bound.
        max_tokens: Most tokens of all answers, input and output; `None` is no bound.
    """

    max_calls: int | None = None
    max_tokens: int | None = None

    @property
    def bounded(self) -> bool:
        """True if there is a bound at all."""
        return self.max_calls is not None or self.max_tokens is not None

    def exceeded(self, calls: int = 0, tokens: int = 0) -> str | None:
        """Returns the name of the first bound that does not allow so many calls or tokens; `None` if both do."""
        if self.max_calls is not None and calls > self.max_calls:
            return "max_calls"
        return "max_tokens" if self.max_tokens is not None and tokens > self.max_tokens else None


@dataclass(frozen=True)
class Budget(Bounds):
    """The bounds of one start of a run, and what earlier starts have spent.

    Attributes:
        folder: Folder in which the processes of this start publish what they have spent.
        calls, tokens: Spent by earlier starts, according to the journals.
    """

    folder: str
    calls: int = 0
    tokens: int = 0

    def spent(self, calls: int = 0, tokens: int = 0) -> str | None:
        """Returns the name of the bound that is reached if this start has spent so much; `None` if calls may begin."""
        return self.exceeded(self.calls + calls + 1, self.tokens + tokens + 1)


@dataclass
class SpendTracker:
    """What a run has spent as far as this process knows: its own calls exactly, those of others as last published.

    A process publishes its spending as the name of an empty object, `<name>-<calls>-<tokens>`, so that one listing
    reads all of them. No lock spans processes: a budget may be exceeded by what they spend within `POLL` seconds.

    Attributes:
        budget: The bounds.
        clock: Returns seconds; injected by tests.
    """

    budget: Budget
    clock: Callable[[], float] = time.monotonic
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)
    _calls: int = 0
    _tokens: int = 0
    _others: tuple[int, int] = (0, 0)
    _published: str | None = None
    _looked: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> str | None:
        """Counts an attempt that begins, or returns the reason why none may begin."""
        if (reason := self.spent()) is None:
            self._calls += 1
        return reason

    def give_back(self) -> None:
        """Takes back an attempt that was refused for its rate, since it did no work."""
        self._calls -= 1

    def pay(self, tokens: int) -> None:
        """Counts the tokens of an answer."""
        self._tokens += tokens

    def spent(self) -> str | None:
        """Returns which bound is reached, or `None`."""
        budget, others = self.budget, self._others
        bound = budget.spent(self._calls + others[0], self._tokens + others[1])
        if bound is None:
            return None
        return f"{OVER_BUDGET}: budget.{bound} {getattr(budget, bound)} are {_SPENT[bound]}"

    def exchange(self, now: bool = False) -> None:
        """Publishes this process's spending and reads that of the others, at most every `POLL` seconds unless `now`."""
        with self._lock:
            if not now and self.clock() - self._looked < POLL:
                return
            self._looked = self.clock()
            try:
                self._publish(f"{self._name}-{self._calls}-{self._tokens}")
                self._others = self._read_others()
            except Exception as error:  # each filesystem has its own exceptions; the journal keeps what was paid
                _log.warning("the processes of the run could not exchange what they have spent: %s", error)

    def _publish(self, name: str) -> None:
        before = self._published
        if name != before:  # write before delete: a reader takes the largest figures if it sees both objects
            storage.write_bytes(storage.join(self.budget.folder, name), b"")
            self._published = name
            if before is not None:
                storage.delete([storage.join(self.budget.folder, before)])

    def _read_others(self) -> tuple[int, int]:
        latest: dict[str, tuple[int, int]] = {}
        for path in storage.below(self.budget.folder):
            name, calls, tokens = path.rpartition("/")[2].split("-")
            if name != self._name:
                latest[name] = max(latest.get(name, (0, 0)), (int(calls), int(tokens)))
        return sum(c for c, _ in latest.values()), sum(t for _, t in latest.values())
