"""Several journals behind one: each keeps the calls of its own endpoints."""

from __future__ import annotations

from collections.abc import Mapping

from ...schemas.calls import Call, Outcome
from .journal import Journal


class Journals:
    """A bundle's view of several journals, with the methods of one.

    Args:
        others: Journal of the endpoints that have none of their own.
        own: Journals by endpoint.
    """

    def __init__(self, others: Journal, own: Mapping[str, Journal]) -> None:
        self._others, self._own = others, own
        self._all = (others, *own.values())

    def find(self, call: Call) -> Outcome | None:
        """Finds the outcome of a call, see `Journal.find`."""
        return self._of(call).find(call)

    def tried(self, call: Call) -> bool:
        """Returns whether a call ended before, see `Journal.tried`."""
        return self._of(call).tried(call)

    def add(self, call: Call, outcome: Outcome) -> int:
        """Adds an outcome and returns its bytes, see `Journal.add`."""
        return self._of(call).add(call, outcome)

    def due(self) -> bool:
        """Returns whether one of them has enough to write."""
        return any(one.due() for one in self._all)

    def full(self) -> bool:
        """Returns whether no call should start before one of them has written its buffer."""
        return any(one.full() for one in self._all)

    def flush_if_due(self) -> bool:
        """Writes the buffers that are large or old, and returns whether any was."""
        written = [one.flush_if_due() for one in self._all]
        return any(written)

    def close(self) -> None:
        """Closes all of them."""
        for one in self._all:
            one.close()

    def _of(self, call: Call) -> Journal:
        return self._own.get(call.endpoint, self._others)


def open_journals(folder: str | None, own: Mapping[str, str], run: str | None) -> Journal | Journals | None:
    """Opens the journals of a bundle; `None` if there is no folder.

    Args:
        folder: Folder of the journal.
        own: Folders of the journals of endpoints that have their own.
        run: As for `Journal`.
    """
    if folder is None:
        return None
    journal = Journal(folder, run)
    return Journals(journal, {name: Journal(path, run) for name, path in own.items()}) if own else journal
