"""The calls that earlier starts of a run have paid for: its journals, which a start reads once for all who ask."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from ...schemas.calls import Outcome
from ...schemas.usage import known_tokens
from ..journal.run_state import RunState
from ..journal.summary import JournalSummary, summarize
from .budget import Bounds, Budget


@dataclass
class PaidCalls:
    """What the journals of a run hold when it starts, and what the start takes in from batches.

    The journals are read when somebody first asks. That must be before `add`, which a reading would count again.

    Attributes:
        run: What stands in the folder of the run.
    """

    run: RunState
    _failed: dict[str, Counter[str]] = field(default_factory=dict)

    @cached_property
    def _journals(self) -> dict[str, JournalSummary]:
        return {folder: summarize(folder, self.run.retry) for folder in self.run.journals}

    @cached_property
    def _spent(self) -> tuple[int, int]:
        found = self._journals.values()
        return sum(s.paid_calls for s in found), sum(s.input_tokens + s.output_tokens for s in found)

    @property
    def without_answer(self) -> int:
        """Calls that ended, but have no answer."""
        return sum(count for s in self._journals.values() for kind, count in s.calls.items() if kind != "ok")

    @property
    def reused(self) -> int:
        """Calls that are not made again."""
        return sum(s.settled for s in self._journals.values())

    def failed(self, journal: str) -> Counter[str]:
        """How often each call of a batch has failed for a passing reason, by its key; the caller counts on."""
        known = self._journals.get(journal)
        return self._failed.setdefault(journal, Counter(known.failed if known is not None else ()))

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome that this start adds to a journal."""
        calls, tokens = self._spent
        self._spent = calls + outcome.attempts - outcome.refused, tokens + sum(known_tokens(outcome.value))

    def budget(self, bounds: Bounds) -> Budget | None:
        """The budget of this start, with the spending of earlier starts; `None` without a bound, and unread."""
        if not bounds.bounded:
            return None
        calls, tokens = self._spent
        return Budget(self.run.folder.temporary("spent", uuid.uuid4().hex), calls, tokens, **vars(bounds))
