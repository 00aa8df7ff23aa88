"""The text metrics as a run uses them: names, parameters, batches, and figures that others published."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalbeam.schemas.errors import ConfigError
from evalbeam.schemas.instance import Example, Instance, Invocation
from evalbeam.schemas.result import Score
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import Metric, ScoringBatch
from evalbeam.transforms.metrics.kernels import pairs as kernel_pairs
from evalbeam.transforms.metrics.kernels import sentences
from evalbeam.transforms.metrics.text import Bleu, ExactMatch, ResponseMatch, Rouge

FOX = [
    ("A fast brown fox leaps over a lazy dog.", "The quick brown fox jumps over the lazy dog."),
    ("A quick brown fox jumps over the lazy canine.", "The quick brown fox jumps over the lazy dog."),
    ("The speedy brown fox jumps over the lazy dog.", "The quick brown fox jumps over the lazy dog."),
]


def example(response: Any, reference: Any) -> Example:
    return Example(Instance("id", {"reference": reference}), Invocation(response=response))


def make(name: str, **params: Any) -> Metric:
    return registry.build(registry.find("metric", name), params, "metrics[0]")


def score(metric: Metric, response: Any, reference: Any) -> float | None:
    return metric.score(example(response, reference)).value


def test_rouge_of_the_rapid_evaluation_service() -> None:
    """Documented example of the service (seed 001), to the six digits it prints; BLEU by its sacrebleu."""
    rouge = make("rouge", rouge_type="rougeLsum", use_stemmer=True, split_summaries=True)
    assert [score(rouge, *pair) for pair in FOX] == pytest.approx([0.555556, 0.777778, 0.888889], abs=1e-6)
    bleus = [0.20556681, 0.66063286, 0.78254229]
    assert [score(make("bleu"), *pair) for pair in FOX] == pytest.approx(bleus, abs=1e-8)


def test_rouge_the_service_computed(conformance: Path) -> None:
    for line in (conformance / "vertex" / "rouge_cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        for name, golden in case["golden"].items():
            assert score(make(name), case["prediction"], case["reference"]) == pytest.approx(golden, abs=1e-6)


def test_response_match_of_adk(conformance: Path) -> None:
    vectors = json.loads((conformance / "adk" / "rouge1_vectors_adk_2.13.0.json").read_text())["vectors"]
    rows = [example(v["candidate"], v["reference"]) for v in vectors]
    for metric in (make("response_match"), make("response_match_score")):
        scores = [metric.score(row) for row in rows]
        assert metric.score_batch(ScoringBatch(rows)).values == [s.value for s in scores]
        assert [s.value for s in scores] == [v["fmeasure"] for v in vectors]
    details = [make("response_match").score(row).details for row in rows]
    assert details == [{"precision": v["precision"], "recall": v["recall"]} for v in vectors]


@pytest.mark.parametrize(
    ("response", "reference", "expected"),
    [
        ("a", "a", 1.0),
        ("a", "A", 0.0),
        ("a ", "a", 0.0),
        ("", "", 1.0),
        ("42", 42, 1.0),
        (True, "true", 1.0),
        (1, 1.0, 0.0),
        ({"b": [1, "é"], "a": None}, '{"a":null,"b":[1,"é"]}', 1.0),
        ("\u00e9", "e\u0301", 0.0),
    ],
)
def test_exact_match(response: Any, reference: Any, expected: float) -> None:
    assert score(ExactMatch(), response, reference) == expected


@pytest.mark.parametrize(
    ("name", "rouge_type"),
    [
        *((f"rouge_{n}", f"rouge{n}") for n in range(1, 10)),
        *((f"rouge{n}", f"rouge{n}") for n in range(1, 10)),
        ("rouge_l", "rougeL"),
        ("rougeL", "rougeL"),
        ("rouge_l_sum", "rougeLsum"),
        ("rougeLsum", "rougeLsum"),
        ("rouge", "rougeLsum"),
    ],
)
def test_names_of_rouge(name: str, rouge_type: str) -> None:
    assert make(name, use_stemmer=True) == Rouge(rouge_type, use_stemmer=True)  # type: ignore[arg-type]


def test_precision_and_recall_are_in_the_details() -> None:
    found = make("rouge_1").score(example("the cat", "the cat sat down"))
    assert found.details == {"precision": 1.0, "recall": 0.5}
    assert found.value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("rouge", {"rouge_type": "rouge10"}),
        ("rouge", {"rouge_type": "rouge0"}),
        ("rouge_1", {"rouge_type": "rouge2"}),
        ("rouge", {"tokenizer": "words"}),
        ("rouge", {"sentence_splitter": "nltk"}),
        ("bleu", {"tokenize": "flores200"}),
        ("bleu", {"smooth": "epsilon"}),
        ("exact_match", {"lowercase": True}),
    ],
)
def test_unknown_parameters_are_configuration_errors(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(params))):
        make(name, **params)


@pytest.mark.parametrize(
    ("name", "params", "module"),
    [
        ("rouge_1", {"use_stemmer": True}, "nltk"),
        ("response_match", {}, "nltk"),
        ("rouge", {"split_summaries": True, "sentence_splitter": "punkt"}, "nltk"),
    ],
)
def test_a_missing_extra_is_named(
    name: str, params: dict[str, Any], module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=rf"{module}.*pip install 'evalbeam\[text\]'"):
        make(name, **params)


@pytest.mark.parametrize("text", ["東京は日本の首都です", "สวัสดีครับ", "Привет, мир", "مرحبا بالعالم", "नमस्ते दुनिया"])
def test_other_scripts_score_only_with_the_unicode_tokenizer(text: str) -> None:
    for name in ("rouge_1", "rouge_l", "rouge_l_sum"):
        assert score(make(name), text, text) == 0.0
        assert score(make(name, tokenizer="unicode"), text, text) == 1.0


def test_the_unicode_tokenizer_changes_nothing_for_ascii() -> None:
    rows = [example(*pair) for pair in FOX * 4]
    for kind in ("rouge2", "rougeL", "rougeLsum"):
        plain, wide = make("rouge", rouge_type=kind), make("rouge", rouge_type=kind, tokenizer="unicode")
        assert plain.score_batch(ScoringBatch(rows)) == wide.score_batch(ScoringBatch(rows))


def test_bleu_of_equal_texts_is_cut_at_one() -> None:
    text = "the quick brown fox jumps over the lazy dog"
    assert score(Bleu(), text, text) == 1.0
    assert score(Bleu(), "good", "good") == 0.0
    assert score(Bleu(use_effective_order=True), "good", "good") == 1.0


def punkt_model(folder: Path) -> None:
    """An English model trained on a few sentences, in the form NLTK ships its own."""
    from nltk.tokenize.punkt import PunktTrainer, save_punkt_params

    trainer = PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train("Dr. Smith met Mr. Jones. They spoke. Dr. Smith left. Mr. Jones stayed. " * 20, finalize=True)
    place = folder / "tokenizers" / "punkt_tab" / "english"
    place.mkdir(parents=True)
    save_punkt_params(trainer.get_params(), dir=str(place))


def test_punkt_splits_as_rouge_score_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk
    from rouge_score.rouge_scorer import RougeScorer

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    sentences.splitter_of.cache_clear()
    with pytest.raises(ConfigError, match=r"punkt_tab.*NLTK_DATA"):
        make("rouge", split_summaries=True, sentence_splitter="punkt")
    punkt_model(tmp_path)
    pair = ("They met Dr. Smith. He\nleft then.", "He left then. They met\nDr. Smith. Mr. Jones spoke.")
    expected = RougeScorer(["rougeLsum"], split_summaries=True).score(pair[1], pair[0])["rougeLsum"].fmeasure
    punkt = make("rouge", split_summaries=True, sentence_splitter="punkt")
    assert punkt.score_batch(ScoringBatch([example(*pair)] * 9)).values == [expected] * 9
    assert score(punkt, *pair) == expected != score(make("rouge"), *pair)
    sentences.splitter_of.cache_clear()


METRICS: list[Metric] = [
    ExactMatch(),
    Bleu(),
    Bleu("13a", "floor", True, True),
    Bleu("char", "none"),
    Rouge("rouge1"),
    Rouge("rouge9"),
    Rouge("rougeL", tokenizer="unicode"),
    Rouge("rougeLsum", use_stemmer=True),
    Rouge("rougeLsum", split_summaries=True),
    ResponseMatch(),
]
texts = st.text(st.sampled_from("ab. \n,1é中\ud800"), max_size=30) | st.text(max_size=10) | st.integers()


def plain(metric: Metric, row: Example) -> Score:
    """The score of one row by plain Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_pairs, "FEWEST_CHARACTERS", 1 << 30)
        return metric.score(row)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=14))
@settings(max_examples=60, deadline=None)
def test_a_batch_scores_as_its_rows_do(rows: list[tuple[Any, Any]]) -> None:
    """Whatever the size of the batch and whatever rows stand beside one."""
    batch = ScoringBatch([example(*row) for row in rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_pairs, "GIANT_CHARACTERS", 45)
        patch.setattr(kernel_pairs, "CHUNK_CHARACTERS", 50)
        patch.setattr(kernel_pairs, "MOST_CHARACTERS", 55)
        patch.setattr(kernel_pairs, "FEWEST_ROWS", 3)
        patch.setattr(kernel_pairs, "FEWEST_CHARACTERS", 40)
        for metric in METRICS:
            column = metric.score_batch(batch)
            assert [column.at(i) for i in range(len(rows))] == [plain(metric, e) for e in batch.examples]
            assert all(value is not None and 0 <= value <= 1 for value in column.values)


def test_tokens_are_shared_by_the_metrics_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    real = kernel_pairs.word_tokens
    monkeypatch.setattr(kernel_pairs, "word_tokens", lambda texts, rule: made.append(rule) or real(texts, rule))
    batch = ScoringBatch([example(*pair) for pair in FOX * 4])
    for name in ("rouge_1", "rouge_2", "rouge_l", "rouge_l_sum"):
        make(name, use_stemmer=True).score_batch(batch)
    make("response_match").score_batch(batch)
    assert len(made) == 1


def test_a_giant_answer_needs_little_memory() -> None:
    """Two lines of 15,000 words on both sides: the table would have 900 million cells, all bit vectors 110 MB."""
    import tracemalloc

    line = " ".join(f"w{i * i % 997}" for i in range(15_000))
    row = example(f"{line}\n{line[5_000:]}", f"{line[6_000:]}\n{line}")
    tracemalloc.start()
    try:
        assert 0.7 < (Rouge().score(row).value or 0) <= 1
        assert 0.7 < (Bleu().score(row).value or 0) <= 1
        assert tracemalloc.get_traced_memory()[1] < 70_000_000
    finally:
        tracemalloc.stop()
