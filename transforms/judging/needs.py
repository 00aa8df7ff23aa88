"""What judges are asked for a row in any case, counted while they are read: a budget below that is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...schemas.instance import FROM_INVOCATION, Example, Instance, Invocation

CHARACTERS = 8
"""Characters of a prompt counted as one token: that is about half of the tokens models count, so never too many."""


@dataclass(frozen=True)
class Need:
    """What one metric asks for a row that has its inputs: the fewest votes that can decide.

    Attributes:
        inputs: Names of the inputs.
        calls: Questions for all trials together.
        tokens: Tokens that their constant part takes at least.
    """

    inputs: tuple[str, ...]
    calls: int
    tokens: int = 0


@dataclass(frozen=True)
class Needs:
    """What a row needs of judges at least.

    Attributes:
        needs: What each metric asks; left out are metrics that may find nothing to ask in a row that has their inputs.
        recall: Takes the answer from a row that brings one; `None` if an agent is called, which is taken to answer.
    """

    needs: Sequence[Need] = ()
    recall: Callable[[Instance], Invocation] | None = None

    def of(self, instance: Instance) -> tuple[int, int]:
        """(calls, tokens) of a row."""
        answer = Invocation() if self.recall is None else self.recall(instance)
        if not answer.answered:
            return 0, 0
        example = Example(instance, answer)
        asked = [need for need in self.needs if all(self._has(example, name) for name in need.inputs)]
        return sum(need.calls for need in asked), sum(need.tokens for need in asked)

    @property
    def most(self) -> tuple[int, int]:
        """(calls, tokens) of a row that has all inputs."""
        return sum(need.calls for need in self.needs), sum(need.tokens for need in self.needs)

    def _has(self, example: Example, name: str) -> bool:
        return (self.recall is None and name in FROM_INVOCATION) or example.get(name) is not None
