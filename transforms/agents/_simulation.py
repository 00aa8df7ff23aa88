"""Simulated users for scenarios: their messages come from a script, or from a model that writes one at a time.

A scenario has the first message (`starting_prompt`), the user's goal (`conversation_plan`) and a persona
(`user_persona`). A whole conversation is one call of the agent and takes one slot of the engine, however long it is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeAlias, cast

from ...schemas.config.explain import unknown_key
from ...schemas.conversation import step_out
from ...schemas.errors import AgentError, ConfigError
from ...schemas.instance import Turn, Usage
from ...schemas.json import Json
from ...schemas.judging import Message, Reply
from ..judges.base import Consult, Judge, Question, Refused
from ..judging.parse import InvalidVerdict, check_verdict, read_verdict
from ..judging.prompts import as_text, describe_schema, load_prompt, make_fence
from ..judging.shapes import TEXT, object_of
from ..registry import build, find, load_object

STOP_SIGNAL = "</finished>"
MESSAGE = object_of(message=TEXT)
_WHERE = "agent.simulator"
_FORMS = '{judge: {type, model ...}}, {script: [text, ...]}, or "module:name" of a function of the scenario'


class NoMessage(AgentError):
    """A simulated user wrote an empty message."""


class User(Protocol):
    """The user's side of a conversation."""

    async def next_message(self, history: Sequence[Turn]) -> Json | None:
        """Returns the user's next message: text or a Content of Google's GenAI API; `None` ends the conversation."""
        ...


Simulate: TypeAlias = Callable[[Json], User]
"""Maps a scenario to its simulated user."""


@dataclass(frozen=True)
class Script:
    """A user who sends fixed messages, whatever the agent answers."""

    messages: Sequence[Json]

    async def next_message(self, history: Sequence[Turn]) -> Json | None:
        return self.messages[len(history)] if len(history) < len(self.messages) else None


@dataclass(frozen=True, kw_only=True)
class Simulator:
    """The settings under `agent.simulator`; exactly one of `judge` and `script` is required.

    Attributes:
        judge: The model that writes each message after the first: `{type: NAME, parameters ...}` as under `judges`.
        script: The messages after the first, the same in every conversation.
        max_turns: Maximum number of the user's messages; -1 for no limit.
        stop_signal: A message that contains this text, in any case, ends the conversation and is not sent.
        instructions: Further instructions for the model.
        template: The whole prompt instead, in Jinja's syntax, with `stop_signal`, `conversation_plan`,
            `conversation_history` and `persona`; ADK's `custom_instructions`.
        function_calls: Show the model the agent's tool calls and their results.
    """

    judge: Any = None
    script: Sequence[Json] = ()
    max_turns: int = 20
    stop_signal: str = STOP_SIGNAL
    instructions: str = ""
    template: str | None = None
    function_calls: bool = False
    _made: Judge | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.judge is None) == (not self.script):
            raise ConfigError("exactly one of judge and script is required", where=_WHERE, allowed=_FORMS)
        if not isinstance(self.script, list | tuple):
            raise ConfigError(f"script is {self.script!r:.100}", where=_WHERE, allowed="a list of messages")
        if self.judge is not None:
            object.__setattr__(self, "_made", _build_judge(self.judge))
        if self.template is not None:
            _check_template(self.template)

    @property
    def model_name(self) -> str | None:
        """Name of the model for its price; `None` for a script."""
        return None if self._made is None else self._made.model_name

    def connect(self) -> Simulate:
        """Creates the model's client, once per worker process."""
        consult = None if self._made is None else self._made.connect()

        def simulate(scenario: Any) -> User:
            if consult is not None:
                return ModelUser(self, scenario, consult)
            messages = [scenario["starting_prompt"], *self.script]
            return Script(messages if self.max_turns < 0 else messages[: self.max_turns])

        made: Any = simulate
        made.close = getattr(consult, "close", None)
        return made


@dataclass(frozen=True)
class ModelUser:
    """A user whose messages after the first are written by a model."""

    simulator: Simulator
    scenario: Mapping[str, Json]
    consult: Consult
    spent: list[Usage | None] = field(default_factory=list)
    """The tokens of each answer of the model so far."""

    async def next_message(self, history: Sequence[Turn]) -> Json | None:
        most = self.simulator.max_turns
        if 0 <= most <= len(history):
            return None
        if not history:
            return self.scenario["starting_prompt"]
        text = await self._asked(history)
        if not text.strip():
            raise NoMessage("the simulated user said nothing")
        return None if self.simulator.stop_signal.lower() in text.lower() else text

    async def _asked(self, history: Sequence[Turn]) -> str:
        template = self.simulator.template
        question = Question(self.messages(history), MESSAGE if template is None else TEXT)
        if inspect.iscoroutinefunction(self.consult):
            reply = await self.consult(question)
        else:
            found: Any = await asyncio.to_thread(self.consult, question)
            reply = await found if inspect.isawaitable(found) else found
        self.spent.append(reply.usage)
        return _read_message(reply)

    def messages(self, history: Sequence[Turn]) -> tuple[Message, ...]:
        """Builds the model's messages: its task, then fenced blocks of plan, persona and conversation."""
        persona = _find_persona(self.scenario.get("user_persona"))
        if self.simulator.template is not None:
            return (Message("user", self._render(self.simulator.template, persona, history)),)
        said = [self._show(turn) for turn in history]
        given = {
            "plan": self.scenario.get("conversation_plan"),
            "persona": persona,
            "instructions": self.simulator.instructions,
            "stop_signal": self.simulator.stop_signal,
            "history": said,
        }
        texts = {name: as_text(value) for name, value in given.items() if value}
        code = make_fence("\n".join(texts.values()), texts)
        blocks = "\n\n".join(f"<{name} {code}>\n{text}\n</{name} {code}>" for name, text in texts.items())
        told = f"{load_prompt('adk/user_simulator').told}\n\n{describe_schema(MESSAGE)}"
        return Message("system", told), Message("user", blocks)

    def _show(self, turn: Turn) -> dict[str, Json]:
        called = [step_out(s) for s in turn.steps if s.kind in ("call", "result")]
        shown: dict[str, Json] = {"user": turn.prompt}
        if called and self.simulator.function_calls:
            shown["tools"] = called
        return {**shown, "agent": turn.response}

    def _render(self, template: str, persona: Json, history: Sequence[Turn]) -> str:
        lines = []
        for turn in history:
            lines.append(f"user: {turn.prompt}")
            for step in turn.steps if self.simulator.function_calls else ():
                if step.kind == "call":
                    lines.append(f"{step.author} called tool {step.tool_name!r} with args: {step.value}")
                elif step.kind == "result":
                    lines.append(f"Tool {step.tool_name!r} returned: {step.value}")
            lines.append(f"agent: {turn.response or ''}")
        return (
            _environment()
            .from_string(template)
            .render(
                stop_signal=self.simulator.stop_signal,
                conversation_plan=self.scenario.get("conversation_plan"),
                conversation_history="\n\n".join(lines),
                persona=persona,
            )
        )


def _environment() -> Any:
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment()


def _check_template(template: str) -> None:
    """Checks that a template is Jinja's and uses what a simulated user must know.

    Raises:
        ConfigError: It does not.
    """
    from jinja2 import TemplateSyntaxError, meta

    try:
        used = meta.find_undeclared_variables(_environment().parse(template))
    except TemplateSyntaxError as error:
        raise ConfigError(f"line {error.lineno}: {error.message}", where=f"{_WHERE}.template") from None
    lacking = [name for name in ("stop_signal", "conversation_plan", "conversation_history") if name not in used]
    if lacking:
        shown = ", ".join(f"{{{{ {name} }}}}" for name in lacking)
        raise ConfigError(f"the template lacks {shown}", where=f"{_WHERE}.template")


def _find_persona(given: Json) -> Json:
    """Returns a persona; one that is named by its id is google-adk's, if that is installed."""
    if not isinstance(given, str):
        return given
    try:
        from google.adk.evaluation.simulation.pre_built_personas import get_default_persona_registry

        persona = get_default_persona_registry().get_persona(given)
    except Exception:  # not installed, or not one of its personas: the name says what is meant
        return given
    told = persona.model_dump(mode="json")
    for behavior in told["behaviors"]:  # for those who judge the user, not for the user
        behavior.pop("violation_rubrics", None)
    return told


def simulator_of(value: Any) -> Simulator | Simulate | None:
    """Builds the simulator from the value of `agent.simulator`.

    Raises:
        ConfigError: The value does not describe a simulator.
    """
    if isinstance(value, Mapping):
        known = [f.name for f in fields(Simulator) if f.init]
        if unknown := next((key for key in value if key not in known), None):
            raise unknown_key(unknown, known, _WHERE)
        return Simulator(**value)
    found: Any = load_object(value, _WHERE) if isinstance(value, str) else value
    if found is not None and not callable(found):
        raise ConfigError(f"found {type(found).__name__}", where=_WHERE, allowed=_FORMS)
    return cast("Simulate | None", found)


def _build_judge(given: Any) -> Judge:
    if isinstance(given, Judge):
        return given
    params = dict(given) if isinstance(given, Mapping) else {"target": given}
    return build(find("judge", params.pop("type", "function"), f"{_WHERE}.judge"), params, f"{_WHERE}.judge")


def _read_message(reply: Reply) -> str:
    """Reads the message from a reply; a text that is not JSON is the message itself."""
    if reply.finish == "refused":
        raise Refused(f"the simulated user's model refused: {reply.text[:200]}")
    try:
        value: Any = (
            check_verdict(reply.value, MESSAGE) if reply.value is not None else read_verdict(reply.text, MESSAGE)
        )
    except InvalidVerdict:
        return reply.text
    return value["message"]
