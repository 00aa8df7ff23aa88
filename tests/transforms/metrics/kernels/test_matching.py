"""Matchings against scipy's, JSON equality against canonical text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from evalbeam.transforms.metrics.kernels.matching import best_assignment, json_equal, json_key, matched, union

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9))
RELATIONS = SHAPES.flatmap(
    lambda shape: st.lists(st.integers(0, 2 ** shape[1] - 1), min_size=shape[0], max_size=shape[0])
)


def scipy_matched(masks: list[int]) -> int:
    width = max(1, max(masks).bit_length())
    table = csr_matrix([[mask >> j & 1 for j in range(width)] for mask in masks])
    return int((maximum_bipartite_matching(table, perm_type="column") >= 0).sum())


@given(RELATIONS)
def test_matched_is_the_largest_matching(masks: list[int]) -> None:
    assert matched(masks, equivalence=False) == scipy_matched(masks)


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_in_an_equivalence_the_first_free_bit_is_best(left: list[int], right: list[int]) -> None:
    masks = [sum(1 << j for j, b in enumerate(right) if a == b) for a in left]
    assert (
        matched(masks) == matched(masks, equivalence=False) == sum(min(left.count(k), right.count(k)) for k in range(4))
    )


def test_a_long_chain_of_moves_is_found() -> None:
    n = 2000
    masks = [*(1 << i | 1 << (i + 1) for i in range(n)), 1]
    assert matched(masks) == n
    assert matched(masks, equivalence=False) == n + 1


def test_nothing_matches_nothing() -> None:
    assert matched([]) == matched([0, 0]) == matched([], equivalence=False) == union([]) == 0


@given(
    SHAPES.flatmap(
        lambda s: st.lists(
            st.lists(st.integers(0, 50), min_size=max(s), max_size=max(s)), min_size=min(s), max_size=min(s)
        )
    )
)
def test_best_assignment_has_the_largest_sum(weights: list[list[int]]) -> None:
    pairs = best_assignment(weights)
    rows, columns = linear_sum_assignment(np.array(weights), maximize=True)
    assert [i for i, _ in pairs] == list(range(len(weights)))
    assert len({j for _, j in pairs}) == len(weights)
    assert sum(weights[i][j] for i, j in pairs) == np.array(weights)[rows, columns].sum()


def test_best_assignment_of_nothing() -> None:
    assert best_assignment([]) == []


JSON = st.recursive(
    st.sampled_from([0, 1, 0.0, 1.0, 2, True, False, None, "", "1", "true"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "1"]), inner, max_size=3),
    max_leaves=5,
)


def canonical(value: Any) -> str:
    """Text that two values share iff they are equal as JSON: whole floats written as integers, keys sorted."""
    if isinstance(value, float):
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + canonical(v) for k, v in sorted(value.items())) + "}"
    return json.dumps(value)


@given(JSON, JSON)
def test_json_equality(a: Any, b: Any) -> None:
    equal = canonical(a) == canonical(b)
    assert json_equal(a, b) == equal
    assert (json_key(a) == json_key(b)) == equal
    assert (json_key(a, strict=False) == json_key(b, strict=False)) == (a == b)
    assert json_equal(a, json.loads(json.dumps(a)))


def test_json_equality_tells_booleans_from_numbers_at_any_depth() -> None:
    a, b = {"k": [1, {"z": [True, "s"]}]}, {"k": [1.0, {"z": [1, "s"]}]}
    assert a == b
    assert not json_equal(a, b)
    assert json_equal(a, {"k": [1.0, {"z": [True, "s"]}]})
