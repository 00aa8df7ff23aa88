"""Puts each failing row into one group: rows of a group most likely fail for the same reason.

A row fails if its call failed, if a metric could not score it, or if a score misses the bound of its metric's
criterion; in a run without such bounds, if a score is the worst possible. What of this is true first, in this order,
names the group; of several metrics it is the first of the configuration.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from ...schemas.errors import RowError
from ...schemas.instance import Example, ToolCall, Trajectory
from ...schemas.result import Rejected, ScoreColumn, ScoredBatch
from ...schemas.trajectory import parse_trajectory
from ..metrics.kernels.calls import ArgsRule, Profile, Sameness
from .criteria import Threshold

EXAMPLES = 3
"""Rows that each group names."""
MESSAGES = 1_000
"""Most messages of a kind, metric and code that are groups of their own; a table must not grow with the dataset."""
OTHERS = "other messages"
_LONGEST = 200
_MASKED = re.compile(
    r"""("[^"]*"|(?<!\w)'[^']*'(?!\w)|`[^`]*`)"""  # quoted
    r"|\b[a-z][a-z0-9+.-]*://[^\s,;)]+"  # addresses
    r"|[\w-]*\d[\w-]*(?:[.,:][\w-]*\d[\w-]*)*"  # numbers, ids, times
    r"|\b[0-9a-fA-F]{8,}\b"
)
_MASK = "…"


class Failure(NamedTuple):
    """What a group of failing rows has in common.

    Attributes:
        kind: "row" (a rejected input row), "call", "error" (of a metric), "trajectory" or "score".
        metric: The metric concerned; `None` for "row" and "call".
        code: Code of the error; of a trajectory "missing", "extra", "wrong_tool" or "wrong_argument"; else `None`.
        message: The error's text without numbers, ids and quoted parts; the diverging step; or the bound.
    """

    kind: str
    metric: str | None
    code: str | None
    message: str


@dataclass(frozen=True, slots=True)
class FailureTest:
    """When a score of a metric is a failure.

    Attributes:
        metric: Output name.
        threshold: Bound of a single score; `None` if it has none.
        worst: The score that fails without a bound; `None` if none does.
        steps: How tool calls are compared, if the metric compares trajectories: (arguments, profile).
    """

    metric: str
    threshold: Threshold | None = None
    worst: float | None = None
    steps: tuple[ArgsRule, Profile] | None = None

    @property
    def words(self) -> str:
        """What a failing score is, in words."""
        if self.threshold is None:
            return f"score {self.worst:g}"
        return f"score {'above' if self.threshold.at_most else 'below'} {self.threshold.value:g}"

    def find(self, column: ScoreColumn) -> list[int]:
        """Returns the positions of the scores that fail."""
        if self.threshold is None:
            worst = self.worst
            return [] if worst is None else [i for i, v in enumerate(column.values) if v == worst]
        bound = self.threshold.value
        if self.threshold.at_most:
            return [i for i, v in enumerate(column.values) if v is not None and v > bound]
        return [i for i, v in enumerate(column.values) if v is not None and v < bound]


@lru_cache(maxsize=4096)
def mask(message: str) -> str:
    """Replaces what differs from row to row by "…": quoted parts, addresses, numbers, and words with a digit."""
    return " ".join(_MASKED.sub(_MASK, message).split())[:_LONGEST]


def find_failures(batch: ScoredBatch, tests: Iterable[FailureTest]) -> dict[int, Failure]:
    """Returns the failure of each failing row of a batch, by its position."""
    found: dict[int, Failure] = {}
    for i, example in enumerate(batch.examples):
        call = example.invocation
        if call.status == "failed":
            found[i] = Failure("call", None, call.error_type, mask(call.error_message or ""))
    known = [(test, batch.scores[test.metric]) for test in tests if test.metric in batch.scores]
    for test, column in known:
        for i in [i for i, status in column.status.items() if status == "error" and i not in found]:
            error = column.errors[i]
            found[i] = Failure("error", test.metric, error.code, mask(error.message))
    failing = [(test, test.find(column)) for test, column in known]
    for test, places in failing:
        if test.steps is not None:
            same = Sameness(*test.steps, distinct=False)
            for i in places:
                if i not in found and (step := _diverging_step(batch.examples[i], same)) is not None:
                    found[i] = Failure("trajectory", test.metric, *step)
    for test, places in failing:
        if new := [i for i in places if i not in found]:
            found |= dict.fromkeys(new, Failure("score", test.metric, None, test.words))
    return found


def _diverging_step(example: Example, same: Sameness) -> tuple[str, str] | None:
    predicted = example.invocation.predicted_trajectory
    try:
        reference = parse_trajectory(example.instance.get("reference_trajectory"))
        return None if predicted is None or reference is None else diverge(predicted, reference, same)
    except (RowError, RecursionError):
        return None


def diverge(predicted: Trajectory, reference: Trajectory, same: Sameness) -> tuple[str, str] | None:
    """Finds the first step at which tool calls leave the reference; `None` if they do not.

    If the tools of a step differ, the call is "extra" if only the expected tool is called later, the expected call is
    "missing" if only the tool that was called is expected later; else it is "wrong_tool".

    Returns:
        ("missing", "extra", "wrong_tool" or "wrong_argument", the step in words without the values of arguments).
    """
    for i, (made, wanted) in enumerate(zip(predicted, reference, strict=False)):
        if made.tool_name == wanted.tool_name:
            if not same.holds(made, wanted):
                return "wrong_argument", f"{made.tool_name}({', '.join(_differing(made, wanted))})"
            continue
        awaited = made.tool_name in [call.tool_name for call in reference[i + 1 :]]
        called = wanted.tool_name in [call.tool_name for call in predicted[i + 1 :]]
        if called and not awaited:
            return "extra", made.tool_name
        if awaited and not called:
            return "missing", wanted.tool_name
        return "wrong_tool", f"{made.tool_name} instead of {wanted.tool_name}"
    if len(predicted) > len(reference):
        return "extra", predicted[len(reference)].tool_name
    return ("missing", reference[len(predicted)].tool_name) if len(predicted) < len(reference) else None


def _differing(made: ToolCall, wanted: ToolCall) -> list[str]:
    """Lists the names of the arguments that differ, sorted."""
    given, expected = made.tool_input or {}, wanted.tool_input or {}
    if not isinstance(given, dict) or not isinstance(expected, dict):
        return []
    absent = object()
    return sorted(key for key in {**given, **expected} if given.get(key, absent) != expected.get(key, absent))


@dataclass(slots=True)
class Messages:
    """The groups of one kind, metric and code: how many rows each message has, and the first of them.

    Messages beyond `MESSAGES` count as one. It is the hash that decides which, so any order of merging gives the same.

    Attributes:
        counts: Rows of each message; "" stands for the others.
        places: The smallest places of each.
    """

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[list[Any]]] = field(default_factory=dict)

    def add(self, message: str, count: int, places: Iterable[list[Any]]) -> None:
        """Adds rows with a message."""
        self.counts[message] += count
        self.places[message] = sorted([*self.places.get(message, ()), *places])[:EXAMPLES]

    def absorb(self, other: Messages) -> None:
        """Adds the rows of another, which stays as it is."""
        for message, count in other.counts.items():
            self.add(message, count, other.places[message])
        self.bound()

    def bound(self) -> None:
        """Moves the messages beyond `MESSAGES` to the others."""
        named = [message for message in self.counts if message]
        if len(named) > MESSAGES:
            for message in sorted(named, key=_rank)[MESSAGES:]:
                self.add("", self.counts.pop(message), self.places.pop(message))

    def to_bytes(self) -> bytes:
        """Encodes the groups as JSON."""
        return orjson.dumps([[message, n, self.places[message]] for message, n in sorted(self.counts.items())])

    @classmethod
    def from_bytes(cls, data: bytes) -> Messages:
        """Decodes what `to_bytes` wrote."""
        found = cls()
        for message, count, places in orjson.loads(data):
            found.add(message, count, places)
        return found


def _rank(message: str) -> tuple[bytes, str]:
    return hashlib.blake2b(message.encode("utf-8", "surrogatepass"), digest_size=8).digest(), message


def group_batch(batch: ScoredBatch, tests: Sequence[FailureTest]) -> Iterator[tuple[str, Messages]]:
    """Yields the groups of a batch: (JSON text of kind, metric and code, their messages)."""
    examples = batch.examples
    found = ((f, [examples[i].instance.instance_id, examples[i].trial]) for i, f in find_failures(batch, tests).items())
    yield from _group(found)


def group_rejected(rejected: Rejected) -> Iterator[tuple[str, Messages]]:
    """Yields the group of a rejected row."""
    place = [rejected.file, rejected.range, rejected.line]
    yield from _group([(Failure("row", None, rejected.code, mask(rejected.message)), place)])


def _group(failures: Iterable[tuple[Failure, list[Any]]]) -> Iterator[tuple[str, Messages]]:
    alike: dict[Failure, list[list[Any]]] = {}
    for failure, place in failures:
        alike.setdefault(failure, []).append(place)
    groups: dict[tuple[str | None, ...], Messages] = {}
    for failure, places in alike.items():
        groups.setdefault(failure[:3], Messages()).add(failure.message or OTHERS, len(places), places)
    for key, messages in groups.items():
        messages.bound()
        yield orjson.dumps(key).decode(), messages


def failure_rows(
    groups: Iterable[tuple[str, Messages]], name_place: Callable[[list[Any]], str]
) -> list[dict[str, Any]]:
    """Builds the rows of the failure_groups table, the largest group first.

    Args:
        groups: The merged groups.
        name_place: Names a place: an instance and trial, or a file, range and line.
    """
    rows = [
        {
            **dict(zip(("kind", "metric", "code"), orjson.loads(key), strict=True)),
            "message": message or OTHERS,
            "count": count,
            "examples": list(dict.fromkeys(map(name_place, messages.places[message]))),
        }
        for key, messages in groups
        for message, count in messages.counts.items()
    ]
    return sorted(rows, key=lambda r: (-r["count"], *(r[name] or "" for name in ("kind", "metric", "code", "message"))))
