"""The minimum of judge calls and tokens per row, counted while reading: a budget below their sum is an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...schemas.instance import FROM_INVOCATION, Example, Instance, Invocation

CHARACTERS = 8
"""Characters per token for a lower bound; models average about 4, so the estimate is about half of the real count."""


@dataclass(frozen=True)
class Need:
    """The minimum that one metric needs for a row with its inputs: the fewest votes that can decide.

    Attributes:
        inputs: Names of the inputs.
        calls: Number of questions, for all trials together.
        tokens: Lower bound for the tokens of their constant part.
    """

    inputs: tuple[str, ...]
    calls: int
    tokens: int = 0


@dataclass(frozen=True)
class Needs:
    """The minimum of judge calls and tokens that a row needs.

    Attributes:
        needs: The needs of each metric, except metrics that may have nothing to ask for a row with their inputs.
        recall: Reads the recorded answer of a row; `None` if an agent is called, which is assumed to answer.
    """

    needs: Sequence[Need] = ()
    recall: Callable[[Instance], Invocation] | None = None

    def of(self, instance: Instance) -> tuple[int, int]:
        """Returns (calls, tokens) of a row."""
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
