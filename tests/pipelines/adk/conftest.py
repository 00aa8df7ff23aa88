"""Scripted agents of google-adk."""

import sys
from pathlib import Path

import pytest

AGENTS = Path(__file__).parents[2] / "transforms" / "agents"


@pytest.fixture(scope="module")
def agents():
    """The module `adk_agents`."""
    pytest.importorskip("google.adk")
    sys.path.insert(0, str(AGENTS))
    import adk_agents

    yield adk_agents
    sys.path.remove(str(AGENTS))


@pytest.fixture
def folder(tmp_path):
    """The folder of a dice agent, as `adk create` makes them."""
    agent = tmp_path / f"agent_{abs(hash(str(tmp_path)))}"
    agent.mkdir()
    (agent / "__init__.py").write_text("from . import agent\n")
    source = (AGENTS / "adk_agents.py").read_text()
    (agent / "agent.py").write_text(source.partition("\nroot_agent = ")[0] + "\nroot_agent = dice_agent()\n")
    return str(agent)
