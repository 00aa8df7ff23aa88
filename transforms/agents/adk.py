"""Agents of Google's Agent Development Kit, run conversation by conversation through ADK's own Runner."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
import types as python
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...schemas.conversation import is_conversation, list_user_messages, turn_in
from ...schemas.errors import AgentError, ConfigError
from ...schemas.instance import Instance, Turn
from ...schemas.json import Json
from ..registry import require_module
from ..runtime.local_objects import original
from ._simulation import Script, Simulate, Simulator, User, simulator_of
from .base import Agent, Ask, loaded, register
from .forms.adk import TurnEvents, retrieval_tools

if TYPE_CHECKING:
    from google.adk.apps.app import App

_ALLOWED = 'the folder of an agent, "module:name" or an object: an App, an agent, or a module with app or root_agent'


class NeedsSimulator(AgentError):
    """A scenario was asked without a simulated user to lead the conversation."""


@register("agent", "adk")
@dataclass(frozen=True)
class AdkAgent(Agent):
    """Runs each row's conversation in a session of its own: the row's messages one by one, or its prompt alone.

    Every conversation starts a fresh in-memory session with the state the row says, and has artifacts and memory of its
    own. The answer has `turns`: the final response, tool calls, steps and tokens of each. An event that carries an
    error where no final response follows, an exception and a turn without an end in time are the failure of the
    conversation. A turn in which the agent says nothing has the response "".

    Attributes:
        target: An agent's folder as `adk run` takes it; "module:name" or the object of an App (preferred, it brings
            plugins and caches along), an agent, or a module or package with one.
        agent_name: Sub-agent to be asked instead of the root agent.
        turn_timeout: Seconds one turn may take; `agent.timeout` bounds the whole conversation.
        session: `app_name`, `user_id` and `state` of conversations that do not say them.
        simulator: Who leads the conversations of scenarios: the keys of a `Simulator` (`judge` or `script`,
            `max_turns`, `stop_signal`, `instructions`), or "module:name" or object of a function from the scenario (a
            dict) to an object with `async next_message(history)`.
    """

    target: Any
    agent_name: str | None = None
    turn_timeout: float | None = None
    session: dict[str, Any] = field(default_factory=dict)
    simulator: Any = None

    def __post_init__(self) -> None:
        require_module("google.adk", "adk", "an agent of type adk", "agent")
        seconds = self.turn_timeout
        if seconds is not None and (isinstance(seconds, bool) or not 0 < seconds < math.inf):
            raise ValueError(f"turn_timeout is {seconds}, allowed: a number above 0")
        simulator_of(original(self.simulator))
        self.app()

    def request(self, instance: Instance) -> Json:
        session, scenario, conversation = (instance.get(name) for name in ("session", "scenario", "conversation"))
        if is_conversation(conversation):
            asked: dict[str, Json] = {"messages": list_user_messages(conversation)}
        elif scenario is not None:
            asked = {"scenario": scenario}
        else:
            asked = {"messages": [instance.get("prompt")]}
        return {**asked, "session": session} if session is not None else asked

    def app(self) -> App:
        """The App that is asked.

        Raises:
            ConfigError: There is no agent at the target.
        """
        from google.adk.apps.app import App

        found = _found(self.target)
        app = found if isinstance(found, App) else App(name=_app_name(found), root_agent=found)
        if self.agent_name is None:
            return app
        agent = app.root_agent.find_agent(self.agent_name)  # type: ignore[union-attr]
        if agent is None:
            raise ConfigError(f"there is no agent {self.agent_name!r}", where="agent.agent_name")
        return app.model_copy(update={"root_agent": agent})

    @classmethod
    def claims(cls, target: Any) -> bool:
        if isinstance(target, str):
            return os.path.isdir(target)
        target = _of_module(target) if isinstance(target, python.ModuleType) else target
        return any(kind.__module__.startswith("google.adk.") for kind in type(target).__mro__)

    def connect(self) -> Ask:
        app, simulator = self.app(), simulator_of(original(self.simulator))
        simulate = simulator.connect() if isinstance(simulator, Simulator) else simulator
        retrieving = retrieval_tools(app.root_agent)

        async def ask(request: Json, key: str) -> Json:
            conversation = _Conversation(app, {**self.session, **(request.get("session") or {})}, key, retrieving)
            user = _user(request, simulate)
            turns: list[Turn] = []
            await conversation.start()
            while (message := await user.next_message(turns)) is not None:
                turns.append(await conversation.turn(message, len(turns) + 1, self.turn_timeout))
            return conversation.answer()

        made: Any = ask
        made.close = getattr(simulate, "close", None)
        return made


def _user(request: Mapping[str, Json], simulate: Simulate | None) -> User:
    if "messages" in request:
        return Script(request["messages"])
    if simulate is None:
        raise NeedsSimulator("the row is a scenario, which needs a user simulator (agent.simulator)")
    return simulate(request["scenario"])


class _Conversation:
    """One session of an app; nothing of it outlives the conversation."""

    def __init__(self, app: App, session: Mapping[str, Any], key: str, retrieving: frozenset[str]) -> None:
        from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
        from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
        from google.adk.runners import Runner
        from google.adk.sessions.in_memory_session_service import InMemorySessionService

        self._seen = _watcher()
        self._sessions = InMemorySessionService()
        # Not closed at the end: closing would take down the toolsets and plugins that all conversations share.
        self._runner = Runner(
            app=app.model_copy(update={"plugins": [*app.plugins, self._seen]}),
            app_name=session.get("app_name") or app.name,
            session_service=self._sessions,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
        )
        self._state = dict(session.get("state") or {})
        self._user = session.get("user_id") or "test_user_id"
        self._id = session.get("session_id") or f"evalbeam-{key[:16]}"
        self._retrieving = retrieving
        self._turns: list[dict[str, Json]] = []
        self._context: list[dict[str, Json]] = []

    async def start(self) -> None:
        """Makes the session."""
        await self._sessions.create_session(
            app_name=self._runner.app_name, user_id=self._user, session_id=self._id, state=self._state
        )

    async def turn(self, message: Json, number: int, timeout: float | None) -> Turn:
        """Says something and waits for the end of the agent's turn."""
        events, limit = TurnEvents(self._retrieving), asyncio.timeout(timeout)
        start = time.monotonic()
        try:
            async with limit:
                await self._listen(message, events)
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"turn {number} had no end in time") from error
            raise
        if events.failure is not None and events.final is None:
            raise events.failure
        prompt = message if isinstance(message, str) else _text(message)
        turn = events.turn(prompt, None if isinstance(message, str) else message, time.monotonic() - start)
        self._turns.append(turn)
        self._context += events.context
        return turn_in(turn)

    async def _listen(self, message: Json, events: TurnEvents) -> None:
        from google.genai.types import Content, Part

        said = Content(role="user", parts=[Part(text=message)]) if isinstance(message, str) else message
        content = said if isinstance(said, Content) else Content.model_validate(said)
        run = self._runner.run_async(user_id=self._user, session_id=self._id, new_message=content)
        async with aclosing(run) as stream:  # type: ignore[type-var]
            async for event in stream:
                events.see(event)

    def answer(self) -> dict[str, Json]:
        """The answer of the conversation so far."""
        found: dict[str, Json] = {"turns": self._turns}
        if self._context:
            found["retrieved_context"] = self._context
        return {**found, "app_details": self._seen.agents} if self._seen.agents else found


def _watcher() -> Any:
    """A plugin that notes what each agent was told: its instructions and tools, as judges want to see them."""
    from google.adk.plugins.base_plugin import BasePlugin

    class Watcher(BasePlugin):
        def __init__(self) -> None:
            super().__init__(name="evalbeam_watcher")
            self.agents: dict[str, Json] = {}

        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            if callback_context.agent_name not in self.agents:
                config = llm_request.config
                tools = [
                    t.model_dump(mode="json", exclude_none=True) for t in config.tools or () if hasattr(t, "model_dump")
                ]
                instructions = config.system_instruction
                text = (
                    instructions if isinstance(instructions, str) else "" if instructions is None else str(instructions)
                )
                self.agents[callback_context.agent_name] = {"instructions": text, "tool_declarations": tools}

    return Watcher()


def _found(target: Any) -> Any:
    """The App or agent that a target stands for."""
    from google.adk.agents.base_agent import BaseAgent
    from google.adk.apps.app import App

    if isinstance(target, str) and os.path.isdir(target):  # of a name too long, too, where pathlib raises
        found = _of_folder(Path(target).resolve())
    else:
        found = loaded(target)
        if isinstance(found, python.ModuleType):
            found = _of_module(found)
    if not isinstance(found, App | BaseAgent) and not _is_node(found):
        raise ConfigError(f"found {type(found).__name__} at {target!r}", where="agent.target", allowed=_ALLOWED)
    return found


def _of_folder(folder: Path) -> Any:
    from google.adk.cli.utils.agent_loader import AgentLoader

    parent = str(folder.parent)
    try:
        return AgentLoader(parent).load_agent(folder.name)
    except Exception as error:  # whatever the agent's own module raises
        first = str(error).strip().partition("\n")[0]
        found = f"no agent in {folder}: {type(error).__name__}: {first}"
        raise ConfigError(found, where="agent.target", allowed=_ALLOWED) from error
    finally:
        if parent not in sys.path:
            sys.path.append(parent)


def _of_module(module: Any) -> Any:
    inner = getattr(module, "agent", None)
    for holder in (inner if isinstance(inner, python.ModuleType) else None, module):
        for name in ("app", "root_agent"):
            if getattr(holder, name, None) is not None:
                return getattr(holder, name)
    return module


def _is_node(value: Any) -> bool:
    return any(
        kind.__module__.startswith("google.adk.") and kind.__name__ == "BaseNode" for kind in type(value).__mro__
    )


def _app_name(agent: Any) -> str:
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in getattr(agent, "name", ""))
    return name if name.isidentifier() and name != "user" else "app"


def _text(message: Json) -> str:
    parts = message.get("parts") or () if isinstance(message, Mapping) else ()
    return "\n".join(p["text"] for p in parts if isinstance(p, Mapping) and p.get("text"))
