"""Every number equals that of rouge-score 0.1.2, sacrebleu and google-adk, float for float.

A small set runs always; `pytest -m parity` runs 50,000 pairs, texts of up to 10,000 words and google-adk.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.transforms.metrics.base import Metric, ScoringBatch
from evalbeam.transforms.metrics.text import Bleu, ResponseMatch, Rouge

Pairs = list[tuple[str, str]]
TYPES = [*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum"]
SETTINGS: list[tuple[str, bool]] = [
    (smooth, order) for smooth in ("exp", "floor", "add-k", "none") for order in (False, True)
]


def batches(pairs: Pairs, seed: int) -> Iterator[ScoringBatch]:
    """The pairs in batches of 1 to 700, so that every way of working is taken."""
    rng = random.Random(seed)
    rest = [Example(Instance(str(i), {"reference": r}), Invocation(response=p)) for i, (p, r) in enumerate(pairs)]
    while rest:
        size = rng.choice((1, 3, 20, 200, 700))
        yield ScoringBatch(rest[:size])
        rest = rest[size:]


def values(metrics: list[Metric], pairs: Pairs, seed: int) -> list[list[tuple[Any, ...]]]:
    """For each metric (score, precision, recall), or only the score, of each pair."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in metrics]
    for batch in batches(pairs, seed):
        for rows, metric in zip(found, metrics, strict=True):
            column = metric.score_batch(batch)
            assert not column.status
            rows += [
                (value, *column.details[i].values()) if column.details else (value,)
                for i, value in enumerate(column.values)
            ]
    return found


def check_rouge(pairs: Pairs, seed: int, types: list[str] = TYPES) -> None:
    """Both stemmer settings; the reference reads words first, then lines."""
    from rouge_score.rouge_scorer import RougeScorer

    for stem in (False, True):
        scorer = RougeScorer(types, use_stemmer=stem)
        expected = [scorer.score(reference, response) for response, reference in pairs]
        ours = values([Rouge(kind, use_stemmer=stem) for kind in types], pairs, seed)  # type: ignore[arg-type]
        for kind, rows in zip(types, ours, strict=True):
            theirs = [(s[kind].fmeasure, s[kind].precision, s[kind].recall) for s in expected]
            assert_equal(rows, theirs, pairs, f"{kind} stem={stem}")


def check_split(pairs: Pairs, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """rouge-score with its own splitting of summaries, its splitter replaced by ours."""
    from rouge_score import rouge_scorer
    from sentencex import segment  # pyright: ignore[reportAttributeAccessIssue]

    monkeypatch.setattr(rouge_scorer.nltk, "sent_tokenize", lambda text: list(segment("en", text)))
    for stem in (False, True):
        scorer = rouge_scorer.RougeScorer(["rougeLsum"], use_stemmer=stem, split_summaries=True)
        theirs = []
        for response, reference in pairs:
            score = scorer.score(reference, response)["rougeLsum"]
            theirs.append((score.fmeasure, score.precision, score.recall))
        (ours,) = values([Rouge(use_stemmer=stem, split_summaries=True)], pairs, seed)
        assert_equal(ours, theirs, pairs, f"split stem={stem}")


def check_bleu(pairs: Pairs, seed: int, tokenize: Any, lowercase: bool) -> None:
    """All smoothings, with and without effective order: the counts by sacrebleu's own code, once."""
    from sacrebleu.metrics.bleu import BLEU

    counter = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    counts = [counter._extract_corpus_statistics([p], [[r]])[0] for p, r in pairs]
    metrics: list[Metric] = [Bleu(tokenize, smooth, order, lowercase) for smooth, order in SETTINGS]  # type: ignore[arg-type]
    for (smooth, order), rows in zip(SETTINGS, values(metrics, pairs, seed), strict=True):
        bleu = BLEU(tokenize="none", smooth_method=smooth, effective_order=order)
        theirs = [(min(bleu._compute_score_from_stats(list(c)).score / 100, 1.0),) for c in counts]
        assert_equal(rows, theirs, pairs, f"{tokenize} lowercase={lowercase} {smooth} effective_order={order}")


def assert_equal(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], pairs: Pairs, what: str) -> None:
    """Shows the first pair that differs."""
    for ours_row, theirs_row, pair in zip(ours, theirs, pairs, strict=True):
        assert ours_row == theirs_row, (what, pair)


@pytest.fixture(scope="module")
def some_pairs(fuzz_pairs: Callable[..., Pairs]) -> Pairs:
    """900 pairs."""
    return fuzz_pairs(2026, 900)


def test_rouge_equals_rouge_score(some_pairs: Pairs) -> None:
    check_rouge(some_pairs, 1)


def test_rouge_of_sentences_equals_rouge_score(some_pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    check_split(some_pairs, 2, monkeypatch)


@pytest.mark.parametrize("tokenize", ["intl", "13a", "none", "char", "zh"])
def test_bleu_equals_sacrebleu(some_pairs: Pairs, tokenize: str) -> None:
    check_bleu(some_pairs, 3, tokenize, lowercase=False)
    check_bleu(some_pairs[:300], 4, tokenize, lowercase=True)


def test_whole_sentence_scores_equal_sacrebleu(some_pairs: Pairs) -> None:
    """Through sacrebleu's public call, not its parts."""
    from sacrebleu import sentence_bleu

    (ours,) = values([Bleu("13a", use_effective_order=True)], some_pairs, 5)
    theirs = [(min(sentence_bleu(p, [r]).score / 100, 1.0),) for p, r in some_pairs]
    assert_equal(ours, theirs, some_pairs, "sentence_bleu")


@pytest.mark.parametrize(
    ("words", "ours", "theirs", "rows"), [(900, 900, 30, 1), (900, 30, 900, 1), (160, 20, 130, 30)]
)
def test_long_lines_equal_rouge_score(words: int, ours: int, theirs: int, rows: int) -> None:
    """Lines of more words than a machine word has bits, in one row alone and in a batch of many such."""
    rng = random.Random(words + ours)
    check_rouge([(prose(rng, words, ours), prose(rng, words, theirs)) for _ in range(rows)], 6, ["rougeLsum"])


def prose(rng: random.Random, words: int, line: int) -> str:
    """Words as frequent as those of a language, in lines of so many."""
    found = [f"w{int(rng.paretovariate(0.6)) % 3000}" for _ in range(words)]
    return "\n".join(" ".join(found[i : i + line]) for i in range(0, words, line))


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(25))
def test_many_pairs(fuzz_pairs: Callable[..., Pairs], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = fuzz_pairs(seed, 2000, long_share=0.02)
    check_rouge(pairs, seed)
    check_split(pairs, seed, monkeypatch)
    for tokenize in ("intl", "13a", "none", "char"):
        check_bleu(pairs, seed, tokenize, lowercase=seed % 4 == 3)


@pytest.mark.parity
@pytest.mark.parametrize(("words", "ours", "theirs"), [(9000, 9000, 40), (10_000, 24, 23), (3000, 3000, 3000)])
def test_texts_of_thousands_of_words(words: int, ours: int, theirs: int) -> None:
    rng = random.Random(words)
    pairs = [(prose(rng, words, ours), prose(rng, words, theirs))]
    check_rouge(pairs, 0, ["rouge2", "rougeLsum"])
    check_bleu(pairs, 0, "intl", lowercase=False)


@pytest.mark.parity
def test_response_match_equals_adk(fuzz_pairs: Callable[..., Pairs]) -> None:
    adk = pytest.importorskip("google.adk.evaluation.final_response_match_v1", reason="google-adk is not installed")
    pairs = fuzz_pairs(77, 5000)
    expected = [adk._calculate_rouge_1_scores(response, reference) for response, reference in pairs]
    (ours,) = values([ResponseMatch()], pairs, 7)
    assert_equal(ours, [(s.fmeasure, s.precision, s.recall) for s in expected], pairs, "response_match")
