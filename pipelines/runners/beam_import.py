"""Imports Beam without its connectors to MongoDB, BigQuery and Pub/Sub, which no run uses.

`import apache_beam` imports the clients of all services that it can read and write: a fifth of its time. The connectors
are left out until somebody asks for them, which an agent may, and are then what they always are.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

_lock = threading.RLock()  # the connectors themselves look for names


class _Later(ModuleType):
    """Stands for a module that others import, until they take something from it."""

    __all__ = ()  # for a star import

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(_LOADERS[self.__name__](), name)


def import_beam() -> None:
    """Imports Beam unless it is imported already; does nothing else then."""
    if "apache_beam" in sys.modules:
        return
    left_out = {name: _Later(name) for name in _LOADERS if name not in sys.modules}
    sys.modules.update(left_out)
    try:
        import apache_beam
        from apache_beam.io import gcp
    finally:
        for name, module in left_out.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
    for package in (apache_beam.io, gcp):
        setattr(package, "__getattr__", _search(package))  # noqa: B010


def _search(package: ModuleType) -> Callable[[str], Any]:
    """Makes a package's function for names it lacks: imports the connectors, whose names the package has then."""

    def search(name: str) -> Any:
        with _lock:
            if not name.startswith("__") and "__getattr__" in vars(package):
                _add_connectors()
        if name in vars(package):
            return vars(package)[name]
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")

    return search


def _add_connectors() -> None:
    """Does what `apache_beam.io` does as it is imported."""
    from apache_beam import io
    from apache_beam.io import gcp

    for package in (io, gcp):
        delattr(package, "__getattr__")
    found = [_load_mongodb()]
    with contextlib.suppress(ImportError):
        found += [_load_bigquery(), _load_pubsub()]
    for module in found:
        for name in module.__all__:
            setattr(io, name, getattr(module, name))


def _load_mongodb() -> ModuleType:
    from apache_beam.io import mongodbio

    return mongodbio


def _load_bigquery() -> ModuleType:
    from apache_beam.io.gcp import bigquery

    return bigquery


def _load_pubsub() -> ModuleType:
    from apache_beam.io.gcp import pubsub

    return pubsub


def _load_dataflow() -> ModuleType:
    from google.cloud import dataflow

    return dataflow


_LOADERS: dict[str, Callable[[], ModuleType]] = {
    "apache_beam.io.mongodbio": _load_mongodb,
    "apache_beam.io.gcp.bigquery": _load_bigquery,
    "apache_beam.io.gcp.pubsub": _load_pubsub,
    "google.cloud.dataflow": _load_dataflow,
}
