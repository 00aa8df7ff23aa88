"""Runs in IPython and notebooks, where Beam would import its interactive runner for every pipeline."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam import pipeline as beams

_PATCHES: dict[str, Any] = {
    "alter_label_if_ipython": lambda transform, pvalueish: None,
    "is_in_ipython": lambda: False,
}
_INTERACTIVE = "apache_beam.runners.interactive.interactive_environment"
_lock = threading.Lock()
_running = 0
_originals: dict[str, Any] = {}


@contextmanager
def plain_pipelines() -> Iterator[None]:
    """While it lasts, Beam makes and runs pipelines in IPython as it does everywhere else.

    There, Beam imports its interactive runner to write the number of the cell into the labels of steps. That imports
    Beam's data frames, which with pandas 3 fails (`type object 'DataFrame' has no attribute 'first'`), and step names
    must not depend on the cell. It also leaves the temporary folder of a pipeline for its interactive runner to delete.
    Beam has no option for either, so the two functions it asks are replaced; runs in several threads share that.
    """
    global _running
    with _lock:
        _running += 1
        if _running == 1:
            _originals.update({name: getattr(beams, name) for name in _PATCHES if hasattr(beams, name)})
            for name in _originals:
                setattr(beams, name, _PATCHES[name])
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                for name, original in _originals.items():
                    setattr(beams, name, original)
                _originals.clear()


def keep_own_pipelines_plain() -> None:
    """Replaces both for the rest of the process, for pipelines of the user; not if the interactive runner is in use.

    With pandas 2 the interactive runner can be imported. It then warns of packages that are missing, and loads scripts
    from a CDN into the notebook.
    """
    if _INTERACTIVE not in sys.modules and beams.is_in_ipython():
        with _lock:
            for name, plain in _PATCHES.items():
                setattr(beams, name, plain)
