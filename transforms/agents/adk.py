"""The agent type `adk`: agents of Google's Agent Development Kit, run by ADK's own Runner."""

from __future__ import annotations

import asyncio
import math
import os
import time
import types as python
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...schemas.conversation import is_conversation, list_user_messages, turn_in
from ...schemas.errors import AgentError, ConfigError
from ...schemas.instance import Instance, Turn, Usage
from ...schemas.json import Json
from ...schemas.usage import SIMULATED
from ..registry import require_module
from ..runtime.local_objects import original
from ._adk_target import find_agent, find_in_module
from ._simulation import ModelUser, Script, Simulate, Simulator, User, simulator_of
from .base import Agent, Ask, register
from .forms.adk import TurnEvents, find_retrieval_tools

if TYPE_CHECKING:
    from google.adk.apps.app import App


class NeedsSimulator(AgentError):
    """A row is a scenario, but no simulated user is configured."""


@register("agent", "adk")
@dataclass(frozen=True)
class AdkAgent(Agent):
    """Runs an ADK agent in a new session per row, with the row's conversation, scenario or prompt.

    Each conversation has its own in-memory session (with the state of the row), artifacts and memory. The answer has
    `turns`: the final response, tool calls, steps and tokens of each turn. A conversation fails if an exception is
    raised, a turn exceeds its timeout, or an error event is not followed by a final response. A turn without any text
    has the response "".

    Attributes:
        target: An agent's folder, as for `adk run`; or "module:name" of, or the object itself: an App (preferred, since
            it includes plugins and caches), an agent, or a module or package that has one.
        agent_name: Name of the sub-agent to run instead of the root agent.
        turn_timeout: Maximum seconds of one turn; `agent.timeout` limits the whole conversation.
        session: Defaults for `app_name`, `user_id` and `state` of a conversation.
        simulator: The simulated user of scenarios: a mapping (`judge` or `script`, `max_turns`, `stop_signal`,
            `instructions`), or a function or its "module:name" that maps the scenario (a dict) to an object with
            `async next_message(history)`.
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
        """Returns the App to run.

        Raises:
            ConfigError: The target has no agent, or no sub-agent of that name.
        """
        from google.adk.apps.app import App

        found = find_agent(self.target)
        app = found if isinstance(found, App) else App(name=_app_name(found), root_agent=found)
        if self.agent_name is None:
            return app
        agent = app.root_agent.find_agent(self.agent_name)  # type: ignore[union-attr]
        if agent is None:
            raise ConfigError(f"there is no agent {self.agent_name!r}", where="agent.agent_name")
        return app.model_copy(update={"root_agent": agent})

    @property
    def simulated_by(self) -> str | None:
        """Name of the model that plays the user, if one does."""
        simulator = simulator_of(original(self.simulator))
        return simulator.model_name if isinstance(simulator, Simulator) else None

    @classmethod
    def claims(cls, target: Any) -> bool:
        if isinstance(target, str):
            return os.path.isdir(target)
        target = find_in_module(target) if isinstance(target, python.ModuleType) else target
        if getattr(target, "__name__", "") == "get_agent_async":
            return True
        return any(kind.__module__.startswith("google.adk.") for kind in type(target).__mro__)

    def connect(self) -> Ask:
        app, simulate = self.app(), _connect_simulator(simulator_of(original(self.simulator)))
        retrieving = find_retrieval_tools(app.root_agent)

        async def ask(request: Json, key: str) -> Json:
            conversation = _Conversation(app, {**self.session, **(request.get("session") or {})}, key, retrieving)
            user = _make_user(request, simulate)
            turns: list[Turn] = []
            await conversation.start()
            while (message := await user.next_message(turns)) is not None:
                turns.append(await conversation.turn(message, len(turns) + 1, self.turn_timeout))
            answer = conversation.answer()
            return {**answer, SIMULATED: _sum_costs(user.spent)} if isinstance(user, ModelUser) else answer

        made: Any = ask
        made.close = getattr(simulate, "close", None)
        return made


def _connect_simulator(simulator: Simulator | Simulate | None) -> Simulate | None:
    """Creates the simulator's client; without one, every scenario fails and other conversations are held."""
    if not isinstance(simulator, Simulator):
        return simulator
    try:
        return simulator.connect()
    except Exception as error:  # of the provider's client: no key, say
        why = f"the client of the user simulator could not be created: {type(error).__name__}: {error}"

    def fail(scenario: Json) -> User:
        raise NeedsSimulator(why)

    return fail


def _sum_costs(spent: Sequence[Usage | None]) -> dict[str, Json]:
    """Sums the tokens of a simulated user's messages, in the form that `judge_costs` reads."""
    known = [u for u in spent if u is not None and u.input_tokens is not None and u.output_tokens is not None]
    found: dict[str, Json] = {"calls": len(spent), "unknown": len(spent) - len(known)}
    found["input_tokens"] = sum(u.input_tokens or 0 for u in known)
    return {**found, "output_tokens": sum(u.output_tokens or 0 for u in known)}


def _make_user(request: Mapping[str, Json], simulate: Simulate | None) -> User:
    if "messages" in request:
        return Script(request["messages"])
    if simulate is None:
        raise NeedsSimulator("the row is a scenario, which needs a user simulator (agent.simulator)")
    return simulate(request["scenario"])


class _Conversation:
    """One session of an app, discarded after the conversation."""

    def __init__(self, app: App, session: Mapping[str, Any], key: str, retrieving: frozenset[str]) -> None:
        from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
        from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
        from google.adk.runners import Runner
        from google.adk.sessions.in_memory_session_service import InMemorySessionService

        self._seen = _make_watcher()
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
        self._user = "test_user_id" if session.get("user_id") is None else session["user_id"]
        self._id = session.get("session_id") or f"evalbeam-{key[:16]}"
        self._retrieving = retrieving
        self._turns: list[dict[str, Json]] = []
        self._context: list[dict[str, Json]] = []

    async def start(self) -> None:
        """Creates the session."""
        await self._sessions.create_session(
            app_name=self._runner.app_name, user_id=self._user, session_id=self._id, state=self._state
        )

    async def turn(self, message: Json, number: int, timeout: float | None) -> Turn:
        """Sends a message and waits until the agent's turn ends.

        Raises:
            TimeoutError: The turn took longer than `timeout` seconds.
            ModelError: The model returned an error and no final response.
        """
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
        """Returns the answer of the conversation so far."""
        found: dict[str, Json] = {"turns": self._turns}
        if self._context:
            found["retrieved_context"] = self._context
        return {**found, "app_details": self._seen.agents} if self._seen.agents else found


def _make_watcher() -> Any:
    """Makes an ADK plugin that records the instructions and tools of each agent, for judges."""
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


def _app_name(agent: Any) -> str:
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in getattr(agent, "name", ""))
    return name if name.isidentifier() and name != "user" else "app"


def _text(message: Json) -> str:
    parts = message.get("parts") or () if isinstance(message, Mapping) else ()
    return "\n".join(p["text"] for p in parts if isinstance(p, Mapping) and p.get("text"))
