"""Scripted agents of google-adk: its real Runner over fake models."""

import asyncio

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import ToolContext
from google.genai import types


def text(value, **more):
    return types.Content(role="model", parts=[types.Part(text=value, **more)])


class FakeModel(BaseLlm):
    """Calls `roll` with the sides the user names, then says what came out; `delay` seconds before each reply."""

    delay: float = 0.0
    thinks: bool = True

    async def generate_content_async(self, llm_request, stream=False):
        if self.delay:
            await asyncio.sleep(self.delay)
        part = llm_request.contents[-1].parts[-1]
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=2, thoughts_token_count=1
        )
        if part.function_response:
            found = part.function_response.response["result"]
            thoughts = [types.Part(text="hm", thought=True)] if self.thinks else []
            content = types.Content(role="model", parts=[*thoughts, types.Part(text=f"It is {found}.")])
        else:
            sides = int(part.text.split()[-1])
            call = types.FunctionCall(name="roll", args={"sides": sides})
            content = types.Content(role="model", parts=[types.Part(text="Rolling."), types.Part(function_call=call)])
        yield LlmResponse(content=content, usage_metadata=usage)


def roll(sides: int, tool_context: ToolContext) -> int:
    """Rolls a die: its sides and how often it was rolled in this session, in one number."""
    count = tool_context.state.get("rolls", 0) + 1
    tool_context.state["rolls"] = count
    return 10 * sides + count


def dice_agent(delay=0.0, thinks=True):
    model = FakeModel(model="fake", delay=delay, thinks=thinks)
    return LlmAgent(name="dice", model=model, instruction="Roll dice.", tools=[roll])


class Counting(BasePlugin):
    """Counts the messages of users."""

    def __init__(self):
        super().__init__(name="counting")
        self.messages = 0

    async def on_user_message_callback(self, *, invocation_context, user_message):
        self.messages += 1


class Odd(BaseAgent):
    """Does what the last word of the message says."""

    async def _run_async_impl(self, ctx):
        word = ctx.user_content.parts[0].text.split()[-1]
        if word == "silent":
            return
        if word == "raise":
            raise RuntimeError("the tool shed burns")
        if word == "hang":
            await asyncio.sleep(3600)
        if word in ("refused", "recovers"):
            yield self._event(ctx, error_code="SAFETY", error_message="no dice")
        if word == "limited":
            yield self._event(ctx, error_code="RESOURCE_EXHAUSTED", error_message="later")
        if word in ("recovers", "fine"):
            yield self._event(ctx, content=text("fine"))
        if word == "twice":
            yield self._event(ctx, content=text("first"))
            yield self._event(ctx, content=text("second"))

    def _event(self, ctx, **fields):
        return Event(author=self.name, invocation_id=ctx.invocation_id, **fields)


root_agent = dice_agent()
odd = Odd(name="odd")
counting = Counting()
app = App(name="dice_app", root_agent=dice_agent(), plugins=[counting])
