"""The models of ADK's eval cases (google-adk 2.13), in snake case, camel case or both; unknown keys are refused.

Parts of Google's GenAI API that evalbeam does not read are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, model_validator
from pydantic.alias_generators import to_camel


class _Adk(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class _Open(_Adk):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class FunctionCall(_Adk):
    """A call of a tool."""

    name: str | None = None
    args: dict[str, Any] | None = None
    id: str | None = None
    partial_args: Any = None
    will_continue: Any = None


class FunctionResponse(_Adk):
    """The output of a tool."""

    name: str | None = None
    response: dict[str, Any] | None = None
    id: str | None = None
    parts: Any = None
    scheduling: Any = None
    will_continue: Any = None


class Part(_Adk):
    """A part of a message."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    audio_transcription: Any = None
    code_execution_result: Any = None
    executable_code: Any = None
    file_data: Any = None
    inline_data: Any = None
    media_processing: Any = None
    media_resolution: Any = None
    part_metadata: Any = None
    speech_metadata: Any = None
    thought_signature: Any = None
    tool_call: Any = None
    tool_response: Any = None
    video_metadata: Any = None


class Content(_Adk):
    """A message."""

    role: str | None = None
    parts: list[Part] | None = None

    @property
    def text(self) -> str | None:
        """The text without thoughts, parts joined by newlines; `None` if there is none."""
        texts = [p.text for p in self.parts or () if p.text is not None and not p.thought]
        return "\n".join(t for t in texts if t) if texts else None


class IntermediateData(_Adk):
    """The steps before the final response, grouped by kind."""

    tool_uses: list[FunctionCall] = []
    tool_responses: list[FunctionResponse] = []
    intermediate_responses: list[tuple[str, list[Part]]] = []


class InvocationEvent(_Open):
    """One event of a turn; ADK ignores keys beyond these, which its editor adds."""

    author: str
    content: Content | None = None
    grounding_metadata: dict[str, Any] | None = None


class InvocationEvents(_Adk):
    """The events of a turn, in order."""

    invocation_events: list[InvocationEvent] = []


def _choose_data(value: Any) -> str:
    keys = value if isinstance(value, Mapping) else type(value).__name__
    events = "InvocationEvents"
    return events if any(key in keys for key in ("invocation_events", "invocationEvents", events)) else "Data"


Intermediate = Annotated[
    Annotated[InvocationEvents, Tag("InvocationEvents")] | Annotated[IntermediateData, Tag("Data")],
    Discriminator(_choose_data),
]
DATA_TAGS = ("InvocationEvents", "Data")
"""Names in locations of errors that are no keys."""


class RubricContent(_Adk):
    """The property that a rubric requires."""

    text_property: str | None = None


class Rubric(_Adk):
    """A property required of an answer."""

    rubric_id: str
    rubric_content: RubricContent
    description: str | None = None
    type: str | None = None


class AdkInvocation(_Adk):
    """One turn of a conversation."""

    invocation_id: str = ""
    user_content: Content
    final_response: Content | None = None
    intermediate_data: Intermediate | None = None
    rubrics: list[Rubric] | None = None
    app_details: dict[str, Any] | None = None
    creation_timestamp: Any = None
    duration: Any = None
    model_duration: Any = None
    tool_duration: Any = None


class SessionInput(_Open):
    """The session a conversation starts in."""

    app_name: str
    user_id: str
    session_id: str | None = None
    state: dict[str, Any] = {}


class UserBehavior(BaseModel):
    """How a persona behaves."""

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class UserPersona(BaseModel):
    """A persona of a simulated user."""

    id: str
    description: str
    behaviors: list[UserBehavior]


class ConversationScenario(_Adk):
    """The goal and behaviour of a simulated user."""

    starting_prompt: str
    conversation_plan: str
    user_persona: Literal["EXPERT", "NOVICE", "EVALUATOR"] | UserPersona | None = None


class EvalCase(_Open):
    """One case of an eval set; keys beyond these are the user's own."""

    eval_id: str
    conversation: list[AdkInvocation] | None = None
    conversation_scenario: ConversationScenario | None = None
    session_input: SessionInput | None = None
    rubrics: list[Rubric] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> EvalCase:
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("exactly one of conversation and conversation_scenario is needed")
        return self


KEYS = sorted(
    {
        key
        for model in (AdkInvocation, Content, Part, FunctionCall, FunctionResponse, IntermediateData, Rubric)
        for key in model.model_fields
    }
    | set(InvocationEvents.model_fields)
    | set(ConversationScenario.model_fields)
)
"""Keys of the models that refuse others."""
