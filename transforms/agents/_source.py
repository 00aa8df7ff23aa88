"""The source of an agent, by which a run knows again whose answers it has."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from ..registry import load_object
from .base import is_address


def source_of(target: Any) -> str | None:
    """sha256 of the file of the module that a target stands in, or of the sources below a folder that it is; `None`
    where there is no such file."""
    if target is None or is_address(target):
        return None
    if isinstance(target, str) and os.path.isdir(target):
        sources = sorted(p for p in Path(target).rglob("*") if p.suffix in (".py", ".yaml"))
        return hashlib.sha256(b"".join(hashlib.sha256(p.read_bytes()).digest() for p in sources)).hexdigest()
    found = load_object(target, "agent.target") if isinstance(target, str) else target
    module = sys.modules.get(target.partition(":")[0]) if isinstance(target, str) else inspect.getmodule(found)
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return None
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
