"""Finished calls of one of a journal's prefixes by key, however large their answers are.

Held are the places of the records; what they are read from stays in memory up to a bound. Calls come in the order in
which they were made, more or less, so a piece that had to leave is read again once, not once for each of its records.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ...schemas.calls import Outcome
from .segments import Head, Record

MOST = 16 << 20
"""Bytes that stay in memory of one prefix, or one piece if it is larger."""

_log = logging.getLogger(__name__)


class Source(Protocol):
    """Records that are read at once: a piece of a segment, a row group of a Parquet file."""

    @property
    def size(self) -> int:
        """Bytes in memory of what is loaded, more or less."""
        ...

    def load(self) -> Any:
        """Reads it."""
        ...

    def record(self, loaded: Any, place: int) -> Record:
        """The record at a place of what was loaded."""
        ...


class Lookup:
    """Finds outcomes by key.

    Args:
        sources: All records of the prefix: sources, what they load, and the heads of their records. The first of the
            records of a key that are wanted most counts.
        wanted: Tells by run and kind how much a record is wanted; 0 is not at all.

    Attributes:
        held: Bytes in memory of what the records are read from.
    """

    def __init__(self, sources: Iterable[tuple[Source, Any, list[Head]]], wanted: Callable[[str, str], int]) -> None:
        self._places: dict[str, tuple[Source, int]] = {}
        self._loaded: OrderedDict[Source, Any] = OrderedDict()
        self.held = 0
        most: dict[str, int] = {}
        for source, loaded, heads in sources:
            self._hold(source, loaded)
            for key, run, kind, place in heads:
                if (worth := wanted(run, kind)) > most.get(key, 0):
                    most[key], self._places[key] = worth, (source, place)

    def get(self, key: str) -> Outcome | None:
        """The outcome of a call, `None` if there is none."""
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

    def _hold(self, source: Source, loaded: Any) -> Any:
        self._loaded[source] = loaded
        self.held += source.size
        while self.held > MOST and len(self._loaded) > 1:
            self.held -= self._loaded.popitem(last=False)[0].size
        return loaded
