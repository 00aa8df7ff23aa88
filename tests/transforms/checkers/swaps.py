"""Wrong claims made of right ones: sentences of published passages with one number, date, name or negation changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from evalbeam.schemas.sentences import split_sentences

_MONTH = r"(?:January|February|March|April|June|July|August|September|October|November|December)"
_NUMBER = re.compile(r"(?<![\d.,/:-])\d+(?:\.\d+)?(?![\w/:-]|[.,]\d)")
_DATE = re.compile(rf"\b(?:{_MONTH}|(?:19|20)\d\d)\b")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]{2,})?\b")
_VERB = re.compile(r"\b(?:is|was|are|were|has|had|can|will)\b(?! (?:not|n't))")


class Swap(NamedTuple):
    """A right claim, the same with something changed, and the passage that the right one stands in."""

    kind: str
    right: str
    wrong: str
    passage: str


def swaps(passages: Sequence[str], each: int) -> list[Swap]:
    """`each` swaps of every kind, in the order of the passages, no sentence twice for a kind.

    Numbers and names are replaced by others of the same passage where it has others (the harder case), else of another.
    """
    makers: dict[str, Callable[[str, str, Sequence[str]], str | None]] = {
        "number": lambda s, p, ps: _replaced(s, p, ps, _NUMBER),
        "date": lambda s, p, ps: _replaced(s, p, ps, _DATE),
        "name": lambda s, p, ps: _replaced(s, p, ps, _NAME),
        "negation": lambda s, p, ps: _negated(s),
    }
    return [swap for kind, make in makers.items() for swap in _some(kind, make, passages, each)]


def _some(kind: str, make: Callable[..., str | None], passages: Sequence[str], each: int) -> Iterator[Swap]:
    seen: set[str] = set()
    for passage in passages:
        for sentence in map(str.strip, split_sentences(passage)):
            if len(seen) < each and 5 <= len(sentence.split()) <= 40 and sentence not in seen:
                wrong = make(sentence, passage, passages)
                if wrong is not None:
                    seen.add(sentence)
                    yield Swap(kind, sentence, wrong, passage)


def _replaced(sentence: str, passage: str, passages: Sequence[str], pattern: re.Pattern[str]) -> str | None:
    found = pattern.search(sentence)
    if found is None:
        return None
    others = [other for text in (passage, *passages) for other in pattern.findall(text)]
    other = next((o for o in others if o not in sentence and o.isdigit() == found[0].isdigit()), None)
    return None if other is None else sentence[: found.start()] + other + sentence[found.end() :]


def _negated(sentence: str) -> str | None:
    if " not " in sentence:
        return sentence.replace(" not ", " ", 1)
    found = _VERB.search(sentence)
    return None if found is None else f"{sentence[: found.end()]} not{sentence[found.end() :]}"
