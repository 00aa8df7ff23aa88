"""Tests of kernels/calls.py: a single pair of calls is compared as in two trajectories."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam import ToolCall
from evalbeam.transforms.metrics.kernels.calls import Sameness

VALUES = st.sampled_from([None, True, False, 0, 1, 1.0, "1", [], [1], [True], {"x": 1}, {"x": True}])
INPUTS = st.none() | st.text(max_size=2) | st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)
CALLS = st.builds(ToolCall, st.sampled_from(["search", "book"]), INPUTS)
RULES = ["exact", "ignore", "subset", "superset", {"search": ["a", "b.x"], "book": "ignore"}]


@pytest.mark.parametrize("profile", ["vertex", "adk", "agentevals"])
@pytest.mark.parametrize("args", RULES, ids=json.dumps)
@given(one=CALLS, other=CALLS)
def test_a_pair_is_the_same_if_trajectories_of_it_are_related(profile, args, one, other):
    same = Sameness(args, profile, distinct=False)
    assert same.holds(one, other) == (same.relate((one,), (other,)) == ((1,), 1, 1))
