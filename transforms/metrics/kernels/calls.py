"""Relates predicted tool calls to reference calls, under the options of the trajectory metrics."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, TypeAlias

from ....schemas.instance import ToolCall, Trajectory
from ....schemas.json import Json
from .matching import json_equal, json_key

ArgsMode: TypeAlias = Literal["exact", "ignore", "subset", "superset"]
ArgsRule: TypeAlias = ArgsMode | dict[str, ArgsMode | list[str]]
Profile: TypeAlias = Literal["vertex", "adk", "agentevals"]
Calls: TypeAlias = list[tuple[str, Json]]
Relation: TypeAlias = tuple[tuple[int, ...], int, int]
"""(masks of the predicted calls over the reference calls, see matching.py; numbers of predicted and reference calls)"""

DIRECT = 64
"""Up to this number of pairs, comparing all pairs of calls is faster than hashing the calls."""


class Sameness:
    """Decides if two calls are the same.

    Args:
        args: How inputs are compared: "exact"; "ignore"; "subset", every argument of the first call is in the second;
            "superset", the reverse; or a mapping from tools to one of these words or to the keys (dotted paths) to
            compare. Tools not listed are compared exactly.
        profile: "vertex" compares inputs as JSON and reads no input as {}; "adk" compares them by Python's `==` and
            distinguishes no input from {}; "agentevals" compares by Python's `==`, reads no input as {} and a missing
            key as null.
        distinct: True if equal calls of one trajectory count once.
    """

    def __init__(self, args: ArgsRule, profile: Profile, distinct: bool) -> None:
        self._strict, self._distinct = profile == "vertex", distinct
        self._no_input: Json = None if profile == "adk" else {}
        self._missing = None if profile == "agentevals" else object()
        self._equal: Callable[[Json, Json], bool] = json_equal if self._strict else operator.eq
        self._modes: Mapping[str, ArgsMode | list[str]] = {} if isinstance(args, str) else args
        self._mode: ArgsMode = args if isinstance(args, str) else "exact"
        self._default = self._test(self._mode)
        self._tests = {tool: self._test(mode) for tool, mode in self._modes.items()}
        self._plain = self._strict and not distinct and args == "exact"
        self.is_equivalence = not {"subset", "superset"} & {
            mode for mode in (self._mode, *self._modes.values()) if isinstance(mode, str)
        }
        """True if sameness is an equivalence between calls, so that calls can be hashed by a key."""

    def relate(self, predicted: Trajectory, reference: Trajectory) -> Relation:
        """Relates the predicted calls to the reference calls.

        Raises:
            RecursionError: Inputs are nested deeper than Python can compare.
        """
        if self._plain and len(predicted) * len(reference) <= DIRECT:
            return tuple(_exactly(predicted, reference)), len(predicted), len(reference)
        none = self._no_input
        ps = [(c.tool_name, none if c.tool_input is None else c.tool_input) for c in predicted]
        rs = [(c.tool_name, none if c.tool_input is None else c.tool_input) for c in reference]
        if self._distinct:
            ps, rs = self._once(ps), self._once(rs)
        by_pairs = len(ps) * len(rs) <= DIRECT or not self.is_equivalence
        return tuple((self._by_pairs if by_pairs else self._by_keys)(ps, rs)), len(ps), len(rs)

    def holds(self, predicted: ToolCall, reference: ToolCall) -> bool:
        """Returns true if two calls are the same.

        Raises:
            RecursionError: As `relate`.
        """
        name, none = predicted.tool_name, self._no_input
        given, wanted = predicted.tool_input, reference.tool_input
        same = self._tests.get(name, self._default)
        return name == reference.tool_name and same(
            none if given is None else given, none if wanted is None else wanted
        )

    def _by_pairs(self, ps: Calls, rs: Calls) -> list[int]:
        masks, tests, default = [], self._tests, self._default
        for name, given in ps:
            same = tests.get(name, default)
            mask, bit = 0, 1
            for other, wanted in rs:
                if name == other and same(given, wanted):
                    mask |= bit
                bit += bit
            masks.append(mask)
        return masks

    def _by_keys(self, ps: Calls, rs: Calls) -> list[int]:
        places: dict[Hashable, int] = {}
        for j, call in enumerate(rs):
            key = self._key(call)
            places[key] = places.get(key, 0) | 1 << j
        return [places.get(self._key(call), 0) for call in ps]

    def _once(self, calls: Calls) -> Calls:
        return list({(name, json_key(given, self._strict)): (name, given) for name, given in reversed(calls)}.values())

    def _key(self, call: tuple[str, Json]) -> Hashable:
        name, given = call
        mode = self._modes.get(name, self._mode)
        if isinstance(mode, list):
            return name, tuple(json_key(self._at(given, path), self._strict) for path in mode)
        return name if mode == "ignore" else (name, json_key(given, self._strict))

    def _test(self, mode: ArgsMode | list[str]) -> Callable[[Json, Json], bool]:
        equal = self._equal
        if isinstance(mode, list):
            return lambda given, wanted: all(equal(self._at(given, k), self._at(wanted, k)) for k in mode)
        return {
            "exact": equal,
            "ignore": lambda given, wanted: True,
            "subset": lambda given, wanted: self._within(given, wanted),
            "superset": lambda given, wanted: self._within(wanted, given),
        }[mode]

    def _within(self, part: Json, whole: Json) -> bool:
        if isinstance(part, dict) and isinstance(whole, dict):
            return all(key in whole and self._equal(value, whole[key]) for key, value in part.items())
        return self._equal(part, whole)

    def _at(self, given: Any, path: str) -> Any:
        """Returns the value at a key, or at a dotted path if there is no such key."""
        if isinstance(given, dict) and path in given:
            return given[path]
        for step in path.split("."):
            given = given.get(step, self._missing) if isinstance(given, dict) else self._missing
        return given


def _exactly(predicted: Trajectory, reference: Trajectory) -> list[int]:
    """Relates calls by JSON equality; a fast path for the default options."""
    masks = []
    for call in predicted:
        name, given = call.tool_name, call.tool_input
        mask, bit = 0, 1
        for other in reference:
            if name == other.tool_name:
                wanted = other.tool_input
                if json_equal({} if given is None else given, {} if wanted is None else wanted):
                    mask |= bit
            bit += bit
        masks.append(mask)
    return masks
