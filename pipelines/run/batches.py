"""The agent and the judges of a plan whose calls go in batches, and the wait for their answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ...schemas.calls import Call
from ...schemas.errors import ConfigError, RunError
from ...schemas.json import Json
from ...schemas.run_folder import AGENT
from ...transforms.agents.base import Agent, read_answer
from ...transforms.batch_api.base import Batched
from ...transforms.calls.batch_exchange import BatchRoute, look_for_answers
from ...transforms.judge import kept, question

if TYPE_CHECKING:
    from .plan import Plan

_ALLOWED = {
    True: "live; or an agent of type http with preset: openai_chat",
    False: "live; or a judge of type openai, google or anthropic",
}
"""Allowed values of `mode`, for agents (True) and for judges (False)."""
POLL = 60.0
"""Seconds between two looks at batches, which take minutes to hours; a look is a request for each of them."""


def check_batches(plan: Plan) -> None:
    """Checks that agents and judges in batch mode have a batch API.

    Raises:
        ConfigError: One has none; names the key, the value found and the values allowed.
    """
    for route in routes_of(plan):
        if isinstance(route.callee, Batched):
            obstacle = route.callee.batch_obstacle(route.mode, plan.config.output.path)
        else:
            obstacle = f"{route.kind} take no batches", _ALLOWED[route.where == AGENT]
        if obstacle is not None:
            found, allowed = obstacle
            raise ConfigError(found, where=f"{route.where}.mode", allowed=allowed)


def wait_for_answers(
    plan: Plan,
    timeout: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Waits until a batch of a pending run has answers.

    Args:
        plan: The run.
        timeout: Seconds to wait at most; default: as long as it takes.
        clock, sleep: For tests.

    Returns:
        False if no batch is on its way, so that waiting is in vain.

    Raises:
        RunError: It takes longer than `timeout`, or the provider cannot be reached.
    """
    began = clock()
    while (found := look_for_answers(tuple(routes_of(plan, live=True)))) is False:
        if timeout is not None and clock() - began + POLL > timeout:
            raise RunError(f"{plan.folder.path}: the batches have no answers after {timeout:g} seconds")
        sleep(POLL)
    return found is not None


def routes_of(plan: Plan, fingerprint: str = "", live: bool = False) -> Iterator[BatchRoute]:
    """The routes of all callees in batch mode; with `live` also of those that may once have been in it."""
    folder, agent, config = plan.folder, plan.agent, plan.config.agent
    if config.mode != "live" or (live and isinstance(agent, Batched)):

        def answer(reply: Any, call: Call) -> Json:
            assert isinstance(agent, Agent)  # a recording has no batches: `check_batches` refuses it
            return read_answer(agent.read(reply), config.max_answer_bytes)

        shown = ("agent", f"agents of type {config.type!r}", AGENT)
        paths = (folder.agent_batches, folder.agent_journal(fingerprint))
        yield BatchRoute(*shown, *paths, config, config.mode, agent, lambda call: call.request, answer)
    for name, use in plan.judges.items():
        if use.mode != "live" or (live and isinstance(use.judge, Batched)):
            shown = (f"judge {name}", f"judges of type {plan.config.judges[name].type!r}", f"judges.{name}")
            paths = (folder.judge_batches(name), folder.judge_journal)
            yield BatchRoute(*shown, *paths, use.policy, use.mode, use.judge, question, partial(kept, batched=True))
