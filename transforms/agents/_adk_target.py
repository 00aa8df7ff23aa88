"""Finds the App or agent of ADK that a target names."""

from __future__ import annotations

import asyncio
import os
import sys
import types as python
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ...schemas.errors import ConfigError
from ..registry import load_object
from .base import load_target

_ALLOWED = (
    'the folder of an agent, "module:name" or an object: an App, an agent, or a module with app, root_agent or '
    "get_agent_async"
)


def find_agent(target: Any) -> Any:
    """Loads the App or agent of a target.

    Raises:
        ConfigError: The target has neither.
    """
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App

    if isinstance(target, str) and os.path.isdir(target):  # pathlib's is_dir raises if the name is too long
        found = _load_folder(Path(target).resolve())
    else:
        found = load_target(target)
        if isinstance(found, python.ModuleType):
            found = _made(find_in_module(found))
    if not isinstance(found, App | BaseAgent) and not _is_node(found):
        raise ConfigError(f"found {type(found).__name__} at {target!r}", where="agent.target", allowed=_ALLOWED)
    return found


def find_in_module(module: Any) -> Any:
    """Returns the app, root_agent or get_agent_async of a module or of its module `agent`; else the module."""
    inner = getattr(module, "agent", None)
    for holder in (inner if isinstance(inner, python.ModuleType) else None, module):
        for name in ("app", "root_agent", "get_agent_async"):
            if getattr(holder, name, None) is not None:
                return getattr(holder, name)
    return module


def _made(found: Any) -> Any:
    """Calls a `get_agent_async`, which returns (agent, exit stack); returns anything else unchanged."""
    if not isinstance(found, python.FunctionType):
        return found
    with ThreadPoolExecutor(1) as own:  # an event loop may be running in this thread
        made = own.submit(asyncio.run, found()).result()
    return made[0] if isinstance(made, tuple) else made


def _load_folder(folder: Path) -> Any:
    from google.adk.cli.utils.agent_loader import AgentLoader

    parent = str(folder.parent)
    try:
        if not folder.name.isidentifier():  # ADK's loader refuses the name, `adk eval` does not
            return _made(find_in_module(_import_folder(folder)))
        try:
            return AgentLoader(parent).load_agent(folder.name)
        except ValueError:
            module = sys.modules.get(folder.name)
            if module is None or (found := _made(find_in_module(module))) is module:
                raise
            return found
    except Exception as error:  # whatever the agent's own module raises
        first = str(error).strip().partition("\n")[0]
        found = f"no agent in {folder}: {type(error).__name__}: {first}"
        raise ConfigError(found, where="agent.target", allowed=_ALLOWED) from error
    finally:
        if parent not in sys.path:
            sys.path.append(parent)


def _import_folder(folder: Path) -> Any:
    """Imports a folder whose name is no module's as a package, and its module `agent` if it has one."""
    name = "".join(c if c.isalnum() else "_" for c in f"agent_{folder.name}")
    start = folder / "__init__.py"
    spec = spec_from_file_location(name, start, submodule_search_locations=[str(folder)]) if start.is_file() else None
    if spec is None:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    module = sys.modules[name] = module_from_spec(spec)
    if spec.loader is not None:
        spec.loader.exec_module(module)
    if (folder / "agent.py").is_file():
        load_object(f"{name}.agent:__name__", "agent.target")
    return module


def _is_node(value: Any) -> bool:
    return any(
        kind.__module__.startswith("google.adk.") and kind.__name__ == "BaseNode" for kind in type(value).__mro__
    )
