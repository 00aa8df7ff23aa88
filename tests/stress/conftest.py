"""What `make stress` sets, and the folders of its runs, which are kept where something went wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from killing import Server, serving


@pytest.fixture(scope="session")
def parameter() -> dict[str, int | None]:
    """`MINUTES` of random runs, or the one of a `SEED`; `KILLS` of parents, and `WORKER_KILLS`."""
    defaults = {"MINUTES": 10, "SEED": None, "KILLS": 100, "WORKER_KILLS": 30}
    return {name: int(os.environ[name]) if os.environ.get(name) else value for name, value in defaults.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server
