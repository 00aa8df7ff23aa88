"""Looks up finished calls of one prefix of a journal by key, however large their answers are.

All positions of records are in memory; the pieces they are read from are cached up to a bound. Calls are looked up in
roughly the order in which they were made, so that a piece that was evicted is read again once, not for each record.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ...schemas.calls import Outcome
from .segments import Head, Record

MOST = 16 << 20
"""Most bytes of one prefix in memory, except that one larger piece is kept."""

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Records that are read at once: a piece of a segment, or a row group of a Parquet file."""

    @property
    def size(self) -> int:
        """Estimated bytes in memory."""
        ...

    def load(self) -> Any:
        """Reads the records."""
        ...

    def record(self, loaded: Any, place: int) -> Record:
        """Returns the record at a place of what `load` returned."""
        ...


class Lookup:
    """Finds outcomes by key.

    Args:
        sources: All records of the prefix: sources, what they load, and the heads of their records. Of several records
            of a key, the first one with the highest rank counts.
        wanted: Returns the rank of a record by run and kind; records of rank 0 do not count.

    Attributes:
        held: Bytes of the sources in memory.
    """

    def __init__(self, sources: Iterable[tuple[Source, Any, list[Head]]], wanted: Callable[[str, str], int]) -> None:
        self._places: dict[str, tuple[Source, int]] = {}
        self._lost: set[str] = set()
        self._loaded: OrderedDict[Source, Any] = OrderedDict()
        self.held = 0
        most: dict[str, int] = {}
        for source, loaded, heads in sources:
            self._hold(source, loaded)
            for key, run, kind, place in heads:
                if (worth := wanted(run, kind)) > most.get(key, 0):
                    most[key], self._places[key] = worth, (source, place)
                elif not worth:
                    self._lost.add(key)

    def get(self, key: str) -> Outcome | None:
        """Returns the outcome of a call; `None` if there is none."""
        found = self._places.get(key)
        if found is None:
            return None
        source, place = found
        loaded = self._loaded.get(source)
        if loaded is None:
            loaded = self._hold(source, source.load())
        else:
            self._loaded.move_to_end(source)
        try:
            return source.record(loaded, place)[2]
        except ValueError as error:
            _log.warning("journal: %s; the call is made again", error)
            return None

    def tried(self, key: str) -> bool:
        """Returns whether there is any record of a call, one of rank 0 included."""
        return key in self._places or key in self._lost

    def _hold(self, source: Source, loaded: Any) -> Any:
        self._loaded[source] = loaded
        self.held += source.size
        while self.held > MOST and len(self._loaded) > 1:
            self.held -= self._loaded.popitem(last=False)[0].size
        return loaded
