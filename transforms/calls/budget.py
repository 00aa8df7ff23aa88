"""What a run may spend on calls, counted over all its worker processes and all its starts."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..io import storage
from .stop import OVER_BUDGET, POLL

if TYPE_CHECKING:
    pass

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Budget:
    """The bounds of one start of a run, and what the starts before it have spent.

    Attributes:
        folder: Where the processes tell each other what they have spent, of this start alone.
        max_calls: Attempts of all calls, those refused for the rate left out; `None` is no bound.
        max_tokens: Tokens of all answers, given and made; `None` is no bound.
        calls, tokens: Spent by earlier starts, as the journals say.
    """

    folder: str
    max_calls: int | None = None
    max_tokens: int | None = None
    calls: int = 0
    tokens: int = 0


@dataclass
class SpendTracker:
    """What a run has spent as far as this process knows: its own calls exactly, those of others as they last said.

    Processes speak through the names of empty objects, `<name>-<calls>-<tokens>`: one list tells all.

    Attributes:
        budget: The bounds.
        clock: Seconds, for tests.
    """

    budget: Budget
    clock: Callable[[], float] = time.monotonic
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)
    _calls: int = 0
    _tokens: int = 0
    _others: tuple[int, int] = (0, 0)
    _said: str | None = None
    _looked: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> str | None:
        """Counts an attempt that begins; or says why none may."""
        if (reason := self.spent()) is None:
            self._calls += 1
        return reason

    def give_back(self) -> None:
        """An attempt was refused for its rate: it did no work."""
        self._calls -= 1

    def pay(self, tokens: int) -> None:
        """Counts the tokens of an answer."""
        self._tokens += tokens

    def spent(self) -> str | None:
        """Which bound is reached, if any."""
        budget = self.budget
        calls = budget.calls + self._calls + self._others[0]
        if budget.max_calls is not None and calls >= budget.max_calls:
            return f"{OVER_BUDGET}: budget.max_calls {budget.max_calls} are made"
        tokens = budget.tokens + self._tokens + self._others[1]
        if budget.max_tokens is not None and tokens >= budget.max_tokens:
            return f"{OVER_BUDGET}: budget.max_tokens {budget.max_tokens} are used"
        return None

    def exchange(self, now: bool = False) -> None:
        """Tells the other processes and hears them, at most every `POLL` seconds unless it has to be now."""
        with self._lock:
            if not now and self.clock() - self._looked < POLL:
                return
            self._looked = self.clock()
            try:
                self._tell(f"{self._name}-{self._calls}-{self._tokens}")
                self._others = self._heard()
            except Exception as error:  # each filesystem has exceptions of its own; the journal says what was paid
                _log.warning("the processes of the run could not tell each other what they spent: %s", error)

    def _tell(self, words: str) -> None:
        before = self._said
        if words != before:
            storage.write_bytes(storage.join(self.budget.folder, words), b"")
            self._said = words
            if before is not None:
                storage.delete([storage.join(self.budget.folder, before)])

    def _heard(self) -> tuple[int, int]:
        latest: dict[str, tuple[int, int]] = {}
        for path in storage.below(self.budget.folder):
            name, calls, tokens = path.rpartition("/")[2].split("-")
            if name != self._name:
                latest[name] = max(latest.get(name, (0, 0)), (int(calls), int(tokens)))
        return sum(c for c, _ in latest.values()), sum(t for _, t in latest.values())
