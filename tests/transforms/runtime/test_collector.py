"""The garbage collector's thresholds are as before, whatever happened meanwhile and in whatever order."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from evalbeam import check_grounding
from evalbeam.transforms.runtime.collector import relaxed_collector


def test_thresholds_are_restored_when_the_last_one_ends() -> None:
    before = gc.get_threshold()
    first, second = ExitStack(), ExitStack()
    first.enter_context(relaxed_collector())
    second.enter_context(relaxed_collector())
    first.close()
    assert gc.get_threshold()[0] > before[0]
    with pytest.raises(KeyError), second:
        raise KeyError
    assert gc.get_threshold() == before


def test_a_check_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold()
    check_grounding({"answerCandidate": "Whales are mammals.", "facts": [{"factText": "Whales are mammals."}]})
    assert gc.get_threshold() == before
