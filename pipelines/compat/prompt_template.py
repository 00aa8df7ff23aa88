"""Templates of prompts, under the Vertex AI SDK's name."""

from __future__ import annotations

from typing import Any

from ...transforms.judging.prompts import VARIABLE, variables_of


class PromptTemplate:
    """A text with {variable} placeholders.

    Args:
        template: The text.

    Attributes:
        template: The text.
        variables: Names of its variables.
    """

    def __init__(self, template: str) -> None:
        self.template = str(template)
        self.variables = set(variables_of(self.template))

    def assemble(self, **values: Any) -> PromptTemplate:
        """Returns the template with some variables filled; placeholders within values are not expanded.

        Raises:
            ValueError: The template has no variable of a name.
        """
        if unknown := next((name for name in values if name not in self.variables), None):
            allowed = ", ".join(sorted(self.variables)) or "none"
            raise ValueError(f"the template has no variable {unknown!r}, allowed: {allowed}")
        return PromptTemplate(VARIABLE.sub(lambda m: str(values.get(m[1], m[0])), self.template))

    def __str__(self) -> str:
        return self.template

    def __repr__(self) -> str:
        return f"PromptTemplate({self.template!r})"
