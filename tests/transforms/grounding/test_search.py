"""BM25, against bm25s."""

from __future__ import annotations

import bm25s
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalbeam.transforms.grounding.passages import Fact, Text, cut_passages
from evalbeam.transforms.grounding.search import K1, B, Index

WORDS = st.sampled_from("ship sank ice ocean night star film award captain band".split())  # noqa: SIM905
SENTENCES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@settings(max_examples=50)
@example(
    [
        "ship ship ship ship ship sank sank sank ice ice ocean ocean",
        "ship ship ship ship ship sank sank ice ice ice ocean ocean",
    ],
    "sank ocean ice",
)
@given(st.lists(SENTENCES, min_size=2, max_size=12), SENTENCES)
def test_scores_and_order_are_those_of_bm25s(facts: list[str], claim: str) -> None:
    index = Index(cut_passages([Fact(fact) for fact in facts]))
    oracle = bm25s.BM25(method="lucene", k1=K1, b=B, dtype="float64")
    oracle.index([[w.stem for w in p.words] for p in index.passages], show_progress=False)
    query = list(dict.fromkeys(w.stem for w in Text([claim]).words))
    known = [stem for stem in query if any(stem in p.stems for p in index.passages)]
    expected = oracle.get_scores(known) * (K1 + 1) if known else np.zeros(len(facts))
    assert np.allclose(index._scores(Text([claim])), expected)
    (found,) = index.search([Text([claim])], 1)
    best = expected.max()
    assert [p.place for p in found] == ([int(np.argmax(np.isclose(expected, best, rtol=1e-9)))] if best > 0 else [])


def test_few_passages_are_all_found_and_of_many_only_those_that_share_a_word() -> None:
    index = Index(cut_passages([Fact("The ship sank."), Fact("Bread is baked."), Fact("The night was cold.")]))
    claim = Text(["A ship of the night"])
    assert [p.place for p in index.search([claim], 3)[0]] == [0, 2, 1]
    assert [p.place for p in index.search([claim], 2)[0]] == [0, 2]
    assert index.search([Text(["the of not"])], 2) == [[]]
    assert Index([]).search([claim], 8) == [[]]
