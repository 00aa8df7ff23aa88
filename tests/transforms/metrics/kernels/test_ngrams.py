"""Clipped matches by sorting against counters, whatever number of orders one sort counts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.metrics.kernels import ngrams
from evalbeam.transforms.metrics.kernels.arrays import Tokens
from evalbeam.transforms.metrics.kernels.ngrams import Grams, clipped

Text = Sequence[int]
texts = st.lists(st.integers(0, 3), max_size=14) | st.lists(st.integers(0, 40), max_size=14)
rows = st.lists(st.tuples(texts, texts), min_size=1, max_size=5)


def tokens_of(pairs: Sequence[tuple[Text, Text]]) -> Tokens:
    every = [*itertools.chain.from_iterable(pairs)]
    bounds = np.array([0, *itertools.accumulate(map(len, every))], np.int64)
    return Tokens(np.array([*itertools.chain.from_iterable(every)], np.int32), bounds, np.empty(0, np.int64))


@pytest.mark.parametrize("bits", [64, 28, 18])
@given(pairs=rows, asked=st.permutations([1, 2, 4, 9]))
def test_all_orders(bits: int, pairs: list[tuple[Text, Text]], asked: list[int]) -> None:
    """In any order of asking; with fewer bits a key has room for fewer orders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngrams, "_KEY_BITS", bits)
        grams = Grams(tokens_of(pairs))
        for most in asked:
            found = np.stack(grams.matches(most), axis=1).tolist()
            assert found == [[clipped(*pair, n) for n in range(1, most + 1)] for pair in pairs]


@given(pairs=rows)
def test_numbers(pairs: list[tuple[Text, Text]]) -> None:
    """Each row's shared tokens are numbered from 1 on, without gaps."""
    grams = Grams(tokens_of(pairs))
    numbers, sizes = iter(grams.numbers.tolist()), np.diff(grams.base).tolist()
    for (ours, theirs), size in zip(pairs, sizes, strict=True):
        number = dict(zip((*ours, *theirs), itertools.islice(numbers, len(ours) + len(theirs)), strict=True))
        shared = set(ours) & set(theirs)
        assert {token for token, value in number.items() if value} == shared
        assert sorted(filter(None, number.values())) == list(range(1, size + 1))
        assert size == len(shared)


def test_rows_of_more_different_tokens_than_one_sort_has_room_for() -> None:
    many = list(range(70_000))
    pairs = [(many, many[1:] + many[:1]), ([1, 2], [2, 1, 2])]
    assert [column.tolist() for column in Grams(tokens_of(pairs)).matches(4)] == [
        [70_000, 2],
        [69_998, 1],
        [69_997, 0],
        [69_996, 0],
    ]
