"""The classifier as a checker, with a model of one layer made here: it knows a handful of words.

Its logit for entailment rises with each word that text and claim share, that for contradiction with each "not" that
stands in one of them only; so verdicts are known beforehand, and truncation, padding and batching show in them.
"""

from __future__ import annotations

import json
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from evalbeam import ConfigError, check_grounding
from evalbeam.transforms import registry
from evalbeam.transforms.checkers.nli import Nli, _classes, _probabilities
from evalbeam.transforms.grounding.passages import Text

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cats", "sleep", "dogs", "bark", "not"]


def graph(rows: int) -> onnx.ModelProto:
    """logits = (sum over tokens of mask * (1 or -1 for the claim) * table[id]) squared, negated, times a matrix.

    So a pair whose halves have the same words has the logit 0 for entailment, any other a negative one.
    """
    table = np.eye(len(WORDS), dtype=np.float32)
    table[:4] = 0
    weights = np.zeros((len(WORDS), rows), np.float32)
    weights[4:8, 0] = -1.0
    if rows == 3:
        weights[8, 2], weights[8, 0] = 4.0, -4.0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Mul", ["token_type_ids", "minus_two"], ["doubled"]),
        helper.make_node("Add", ["doubled", "one"], ["signs"]),
        helper.make_node("Mul", ["signs", "attention_mask"], ["signed"]),
        helper.make_node("Cast", ["signed"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "last"], ["column"]),
        helper.make_node("Mul", ["words", "column"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "middle"], ["sums"], keepdims=0),
        helper.make_node("Mul", ["sums", "sums"], ["squares"]),
        helper.make_node("MatMul", ["squares", "weights"], ["logits"]),
    ]
    constants = [("table", table), ("weights", weights), ("minus_two", np.array(-2)), ("one", np.array(1))]
    constants += [("last", np.array([-1])), ("middle", np.array([1]))]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", rows])
    values = [numpy_helper.from_array(value, name) for name, value in constants]
    made = helper.make_graph(nodes, "counts", inputs, [output], values)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def folder(path: Path, labels: dict[str, str], rows: int = 3) -> str:
    """A model in a folder, as an exporter writes it."""
    path.mkdir()
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "config.json").write_text(json.dumps({"id2label": labels, "pad_token_id": 0}))
    onnx.save(graph(rows), str(path / "model.onnx"))
    return str(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with three classes."""
    labels = {"0": "entailment", "1": "neutral", "2": "contradiction"}
    return folder(tmp_path_factory.mktemp("nli") / "model", labels)


def weighed(model: str, pairs: list[tuple[str, str]], **params: Any) -> list[tuple[float, float]]:
    return [
        (v.entailed, v.contradicted) for v in Nli(model, **params).weigh([(Text([c]), Text([t])) for c, t in pairs])
    ]


def softmax(*logits: float) -> tuple[float, float]:
    total = sum(map(exp, logits))
    return round(exp(logits[0]) / total, 5), round(exp(logits[2]) / total, 5)


PAIRS = [
    ("cats sleep", "cats sleep"),
    ("cats sleep", "dogs bark"),
    ("cats not sleep", "cats sleep"),
    ("dogs", "dogs bark"),
]
EXPECTED = [softmax(0, 0, 0), softmax(-4, 0, 0), softmax(-4, 0, 4), softmax(-1, 0, 0)]


@pytest.mark.parametrize("batch_size", [1, 2, 32])
def test_classes_are_read_by_name_whatever_the_batches(model: str, batch_size: int) -> None:
    assert weighed(model, PAIRS, batch_size=batch_size) == EXPECTED
    assert weighed(model, PAIRS * 20, batch_size=batch_size) == EXPECTED * 20


def test_of_a_long_pair_the_text_is_cut_and_never_the_claim(model: str) -> None:
    long = "cats sleep " + "dogs " * 500
    assert weighed(model, [("cats sleep", long)], max_length=7) == [softmax(0, 0, 0)]
    assert weighed(model, [("cats sleep", long)])[0][0] == 0.0
    assert weighed(model, [*PAIRS, ("cats " * 600, "cats " * 600)], max_length=33)[:4] == EXPECTED
    assert weighed(model, [("cats " * 600, "cats " * 600)], max_length=33) == [softmax(0, 0, 0)]


def test_two_classes_and_single_logits_contradict_nothing(tmp_path: Path) -> None:
    single = folder(tmp_path / "single", {"0": "LABEL_0"}, rows=1)
    assert weighed(single, PAIRS[:2]) == [(0.5, 0.0), (round(1 / (1 + exp(4)), 5), 0.0)]
    assert _classes({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, "m") == (1, None)
    assert _classes({"id2label": {"0": "not_entailment", "1": "entailment"}}, "m") == (1, None)
    assert _classes({"id2label": {"0": "CONTRADICTION", "1": "NEUTRAL", "2": "ENTAILMENT"}}, "m") == (2, 0)
    with pytest.raises(ConfigError, match="has the classes good, bad"):
        _classes({"id2label": {"0": "good", "1": "bad"}}, "m")
    assert np.isfinite(_probabilities(np.array([[1e4], [-1e4]]))).all()


def test_it_is_a_checker_like_any_other(model: str) -> None:
    request = {
        "answerCandidate": "cats sleep. Thanks!",
        "facts": [{"factText": "dogs bark."}, {"factText": "cats sleep."}],
    }
    spec = {"groundingSpec": {"citationThreshold": 0.3, "enableClaimLevelScore": True}}
    response = check_grounding({**request, **spec}, checker={"type": "nli", "path": model})
    assert response["supportScore"] == EXPECTED[0][0]
    assert [c["source"] for c in response["citedChunks"]] == ["1"]


def test_a_folder_on_another_filesystem_is_copied(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.io.localfilesystem import LocalFileSystem

    class Bucket(LocalFileSystem):
        """The local files under a scheme of their own."""

        @classmethod
        def scheme(cls) -> str:
            return "bucket"

        def match(self, patterns: Any, limits: Any = None) -> Any:
            found = super().match([p.removeprefix("bucket:/") for p in patterns], limits)
            for result in found:
                for file in result.metadata_list:
                    file.path = f"bucket:/{file.path}"
            return found

        def exists(self, path: str) -> bool:
            return super().exists(path.removeprefix("bucket:/"))

        def open(self, path: str, *args: Any, **kwargs: Any) -> Any:
            return super().open(path.removeprefix("bucket:/"), *args, **kwargs)

    known = FileSystems.get_filesystem
    monkeypatch.setattr(
        FileSystems, "get_filesystem", lambda path: Bucket(None) if path.startswith("bucket:") else known(path)
    )
    assert weighed(f"bucket:/{model}", PAIRS) == EXPECTED


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    part = registry.find("checker", "nli")
    with pytest.raises(ConfigError, match=r"checker.path: missing"):
        registry.build(part, {}, "checker")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"has no tokenizer.json, model.onnx \(allowed: there is config.json\)"):
        registry.build(part, {"path": str(tmp_path)}, "checker")
