"""One start of a run, as the steps that make its calls see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...schemas.run_folder import RunFolder
from ..journal.ranks import name_start
from ..runtime.spill import Spill
from .budget import Budget
from .prices import Prices


@dataclass(frozen=True)
class RunContext:
    """One start of a run: its folder, limits and identity. It is pickled and sent to the workers.

    Attributes:
        folder: The run's folder, where finished calls are kept and found again, and whose object `stop` stops the run
            in all its processes. `None` keeps nothing, and each process stops alone.
        fingerprint: What the agent's calls are kept under; answers of another fingerprint are not taken over.
        processes: Worker processes the run is declared to have; they share its total limits.
        budget: What this start may spend; `None` is no bound.
        prices: What progress shows as spent; `None` if nobody looks.
        spill: Where the shuffles of the run keep their bytes.
        start: Stands for this start: it finds all its own results in the journals again, failures too.
    """

    folder: RunFolder | None = None
    fingerprint: str = ""
    processes: int = 1
    budget: Budget | None = None
    prices: Prices | None = None
    spill: Spill = field(default_factory=Spill)
    start: str = field(default_factory=name_start)

    @property
    def stop(self) -> str | None:
        """Path of the object that stops the run's calls, if there is a folder."""
        return None if self.folder is None else self.folder.stop

    @property
    def agent_journal(self) -> str | None:
        """Folder of the agent's finished calls, if there is one."""
        return None if self.folder is None else self.folder.agent_journal(self.fingerprint)

    @property
    def judge_journal(self) -> str | None:
        """Folder of the judges' votes, if there is one."""
        return None if self.folder is None else self.folder.judge_journal
