"""Spares Beam to read the signatures of the same methods again and again while it builds and runs a graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from apache_beam.transforms import core

Arguments: TypeAlias = tuple[list[str], list[Any]]
"""Names of the arguments of a method, and the defaults of the last ones."""

_lock = threading.Lock()
_running = 0
_originals: list[Callable[..., Any]] = []


@contextmanager
def known_signatures() -> Iterator[None]:
    """While it lasts, Beam reads the signature of each method once.

    Beam asks for those of all methods of a step some ten times, at building, translation and the start of each bundle:
    10,000 times for a small run, which is a third of its time. Its function that reads them is replaced, since there is
    no option; runs in several threads share that. Where it has another name, a run is only slower.
    """
    global _running
    with _lock:
        _running += 1
        if _running == 1 and hasattr(core, "get_function_arguments"):
            _originals.append(core.get_function_arguments)
            core.get_function_arguments = _remember(core.get_function_arguments)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0 and _originals:
                core.get_function_arguments = _originals.pop()


def _remember(read: Callable[[Any, str], Arguments]) -> Callable[[Any, str], Arguments]:
    """Makes a function with the results of `read`, which it keeps for the methods of classes."""
    known: dict[Any, Arguments] = {}

    def arguments(obj: Any, func: str) -> Arguments:
        function = getattr(getattr(obj, func), "__func__", None)
        # Steps that wrap a function have a method of this name, which tells the arguments of that function.
        if function is None or hasattr(obj, f"_inspect_{func}"):
            return read(obj, func)
        if function not in known:
            known[function] = read(obj, func)
        names, defaults = known[function]
        return [*names], [*defaults]

    return arguments
