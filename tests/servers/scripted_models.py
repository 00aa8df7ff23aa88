"""What fake models say behind a `ModelServer`: verdicts of any shape, by a script; and now and then something else.

What becomes of a question depends on its words alone, so it is the same in every run.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from model_server import Asked, Said

FATES = {"limited": 20, "broken": 20, "down": 10, "refused": 20, "truncated": 20, "beyond": 10}
"""Of 1,000 questions, how many are refused for the rate once (HTTP 429), fail once (500), fail while the server is down
(500), are refused by the model, are cut off, and get a verdict beyond what was asked for. The others are answered."""
PASSING = ("limited", "broken")
RETRY_AFTER = 1
_BLOCK = re.compile(r"<(\w+) ([0-9a-f]{16})>\n(.*?)\n</\1 \2>", flags=re.DOTALL)


class ScriptedModels:
    """Speaks for any number of models.

    Attributes:
        down: Whether the questions whose fate is "down" fail.
        asked: How often each question came, by a hash of model and words, since it was last cleared.
        fates: What became of each question, by the same.
        tokens: (given, made) by model, of all that was said.
        waited: Seconds from each HTTP 429 to the next attempt.
    """

    def __init__(self) -> None:
        self.down = True
        self.asked: Counter[str] = Counter()
        self.fates: dict[str, tuple[str, str]] = {}
        self.tokens: dict[str, tuple[int, int]] = {}
        self.waited: list[float] = []
        self._limited_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Said:
        question = hashlib.sha256("\0".join((asked.model, asked.system, asked.user)).encode()).hexdigest()
        draw = random.Random(question)
        fate = _fate(draw)
        with self._lock:
            self.asked[question] += 1
            self.fates[question] = (asked.model, fate)
            if (error := self._error(question, fate)) is not None:
                return error
            used = (draw.randint(50, 500), draw.randint(10, 50))
            given, made = self.tokens.get(asked.model, (0, 0))
            self.tokens[asked.model] = (given + used[0], made + used[1])
        if fate == "beyond":
            return Said('{"explanation": "beyond", "score": 99}', tokens=used)
        text = json.dumps(verdict_on(asked, draw))
        if fate == "truncated":
            return Said(text[: len(text) // 2], cut=True, tokens=used)
        return Said(text, refused=fate == "refused", tokens=used)

    def _error(self, question: str, fate: str) -> Said | None:
        """The HTTP error that an attempt gets."""
        if began := self._limited_at.pop(question, None):
            self.waited.append(time.monotonic() - began)
        first = self.asked[question] == 1
        if fate == "limited" and first:
            self._limited_at[question] = time.monotonic()
            return Said(status=429, headers={"Retry-After": str(RETRY_AFTER)})
        if (fate == "broken" and first) or (fate == "down" and self.down):
            return Said(status=500)
        return None


def _fate(draw: random.Random) -> str:
    place = draw.randrange(1000)
    for fate, share in FATES.items():
        place -= share
        if place < 0:
            return fate
    return "answered"


def verdict_on(asked: Asked, draw: random.Random) -> Any:
    """A verdict of the shape that was asked for, on all that the question's blocks hold."""
    given = {name: value for name, _, value in _BLOCK.findall(asked.user)}
    wanted: Mapping[str, Any] = (asked.schema or {})["properties"]
    if "rubrics" in wanted:
        return {"rubrics": ["It answers.", "It is short."]}
    if "sentences" in wanted:
        numbers = [{"number": one["number"]} for one in json.loads(given["sentences"])]
        return {"sentences": [_filled(wanted["sentences"]["items"], draw, known) for known in numbers]}
    if "verdicts" in wanted:
        shape = wanted["verdicts"]["items"]
        if "rubric_id" in shape["properties"]:
            things = [{"rubric_id": one["rubric_id"]} for one in json.loads(given["rubrics"])]
        else:
            things = [{"number": i} for i, _ in enumerate(given["rubrics"].splitlines(), 1)]
        return {"verdicts": [_filled(shape, draw, known) for known in things]}
    return _filled({"properties": wanted}, draw, {})


def _filled(shape: Mapping[str, Any], draw: random.Random, known: Mapping[str, Any]) -> dict[str, Any]:
    return {name: known.get(name, _one(kind, draw)) for name, kind in shape["properties"].items()}


def _one(shape: Mapping[str, Any], draw: random.Random) -> Any:
    if "enum" in shape:
        return draw.choice(shape["enum"])
    return {"string": "so it is", "boolean": draw.random() < 0.5, "integer": 1, "number": 0.5}[shape["type"]]
