"""The calls that earlier starts of a run have paid for: its journals, which a start reads once for all who ask."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import orjson

from ...schemas.calls import Outcome
from ...schemas.json import Json
from ...schemas.run_folder import FINGERPRINT_RECORD, JUDGES_RECORD, RunFolder
from ...schemas.usage import known_tokens
from ...transforms.calls.budget import Bounds, Budget
from ...transforms.io import storage
from ...transforms.journal.summary import JournalSummary, summarize


@dataclass
class PaidCalls:
    """What the journals of a run hold when it starts, and what the start takes in from batches.

    The journals are read when somebody first asks. That must be before `add`, which a reading would count again.

    Attributes:
        output: Folder of the run.
    """

    output: str
    _failed: dict[str, Counter[str]] = field(default_factory=dict)

    @cached_property
    def _journals(self) -> dict[str, JournalSummary]:
        retry = retries(self.output)
        return {folder: summarize(folder, retry) for folder in journals(self.output)}

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
        folder = RunFolder(self.output).temporary("spent", uuid.uuid4().hex)
        return Budget(folder, calls, tokens, **vars(bounds))


def retries(output: str) -> int:
    """The number of retries of a run that were begun."""
    path = RunFolder(output).retries
    return orjson.loads(storage.read_bytes(path)) if storage.exists(path) else 0


def journals(output: str) -> list[str]:
    """Folders of the journals of a run: one for each fingerprint its calls were made under, then that of the votes."""
    folder = RunFolder(output)
    return [folder.agent_journal(own) for own in sorted(earlier_agents(folder.journals))] + judge_journals(output)


def judge_journals(output: str) -> list[str]:
    """The folder of the votes of judges, in a list that is empty if none were asked."""
    folder = RunFolder(output).judge_journal
    return [folder] if storage.exists(storage.join(folder, JUDGES_RECORD)) else []


def earlier_agents(folder: str) -> dict[str, dict[str, Json]]:
    """Fingerprints that calls are journaled under, and their parts."""
    records = [path for path in storage.below(folder) if path.endswith("/" + FINGERPRINT_RECORD)]
    return {path.split("/")[-2]: orjson.loads(storage.read_bytes(path)) for path in records}
