"""The demo's judge: a script in place of a judge model, so that the demo needs no key and no network.

It is a fake that follows a few rules and understands nothing. Its verdicts show how judge metrics work, not how good
the agent is. `eval.yaml` contains the line that uses a model instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_BLOCK = re.compile(r"<(\w+) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>", flags=re.DOTALL)
_QUESTION = re.compile(r"\?\s*$")
_WORD = re.compile(r"\w+")


def fake(messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Scores by rules: low for an answer that asks a question back, lower the longer an answer is.

    Args:
        messages: The prompt of a judge model; the answer is its block `prediction`.
        schema: JSON schema of the verdict; its choices are the possible scores.
    """
    given = {name: value for name, _, value in _BLOCK.findall(messages[-1]["content"])}
    answer, choices = given.get("prediction", ""), schema["properties"]["score"]["enum"]
    words = len(_WORD.findall(answer))
    if "instruction" in given and _QUESTION.search(answer):
        return {"explanation": "The answer asks back instead of doing what was asked.", "score": choices[0]}
    lost = max(0, words - 12) // 6
    why = f"The answer has {words} words" + (", more than can be spoken in one breath." if lost else ".")
    return {"explanation": why, "score": choices[max(0, len(choices) - 1 - lost)]}
