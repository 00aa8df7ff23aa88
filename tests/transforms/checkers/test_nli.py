"""The classifier as a checker, with a model of one layer made here: it knows a handful of words.

Its logit for entailment rises with each word that text and claim share, that for contradiction with each "not" that
stands in one of them only; so verdicts are known beforehand, and truncation, padding and batching show in them.
"""

from __future__ import annotations

import json
import shutil
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from evalbeam import ConfigError, check_grounding
from evalbeam.pipelines.cli.main import main
from evalbeam.transforms import registry
from evalbeam.transforms.checkers.nli import Nli, _read_classes, _to_probabilities
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


def fix_shape(folder: str, at: int, size: int) -> str:
    """Gives one dimension of all inputs a fixed size, as an export without dynamic axes does."""
    path = Path(folder) / "model.onnx"
    made = onnx.load(path)
    for given in made.graph.input:
        given.type.tensor_type.shape.dim[at].dim_value = size
    onnx.save(made, path)
    return folder


def test_a_model_of_a_fixed_width_gets_padded_and_cut_pairs(model: str, tmp_path: Path) -> None:
    fixed = fix_shape(shutil.copytree(model, tmp_path / "fixed").as_posix(), 1, 9)
    assert weighed(fixed, PAIRS) == EXPECTED
    assert weighed(fixed, [("cats sleep", "cats sleep " + "dogs " * 500)]) == weighed(
        model, [("cats sleep", "cats sleep " + "dogs " * 500)], max_length=9
    )


def test_a_model_of_a_fixed_number_of_pairs_is_refused(model: str, tmp_path: Path) -> None:
    fixed = fix_shape(shutil.copytree(model, tmp_path / "fixed").as_posix(), 0, 1)
    with pytest.raises(ConfigError, match=r"takes batches of 1 pairs only \(allowed: an export with a dynamic batch"):
        Nli(fixed)


def test_two_classes_and_single_logits_contradict_nothing(tmp_path: Path) -> None:
    single = folder(tmp_path / "single", {"0": "LABEL_0"}, rows=1)
    assert weighed(single, PAIRS[:2]) == [(0.5, 0.0), (round(1 / (1 + exp(4)), 5), 0.0)]
    assert np.isfinite(_to_probabilities(np.array([[1e4], [-1e4]]))).all()


@pytest.mark.parametrize(
    ("labels", "grounded", "contrary"),
    [
        (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], 2, 0),
        (["entailment", "neutral", "contradiction"], 0, 2),
        (["entailment", "not_entailment"], 0, None),
        (["not entailed", "entailed"], 1, None),
        (["NonEntailment", "Entailment"], 1, None),
        (["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], 0, 1),
        (["unsupported", "supported"], 1, None),
        (["no-support", "support"], 1, None),
        (["consistent", "inconsistent"], 0, None),
        (["no contradiction", "contradiction", "entailment"], 2, 1),
        (["LABEL_0", "LABEL_1"], 1, None),
        (["LABEL_0"], 0, None),
        (None, 1, None),  # transformers leaves the names of two classes out where they have none
        (["LABEL_0", "LABEL_1", "LABEL_2"], None, None),
        (["good", "bad"], None, None),
        (["supported", "partly supported"], None, None),
    ],
)
def test_classes_are_found_by_their_names(labels: list[str] | None, grounded: int | None, contrary: int | None) -> None:
    config = {} if labels is None else {"id2label": {str(i): name for i, name in enumerate(labels)}}
    if grounded is None:
        with pytest.raises(ConfigError, match=rf"checker.path: 'm' has the classes {labels[0].casefold()}, "):
            _read_classes(config, "m")
        return
    assert _read_classes(config, "m") == (len(labels or "ab"), grounded, contrary)
    reordered = {"id2label": dict(reversed(config.get("id2label", {}).items()))}
    assert _read_classes(reordered, "m") == _read_classes(config, "m")


SAVED = Path(__file__).parents[2] / "golden" / "nli"


def saved(name: str) -> tuple[str, list[tuple[str, str]], list[list[float]]]:
    """A folder as transformers and optimum wrote it, pairs, and the probabilities that torch has for them."""
    expected = json.loads((SAVED / name / "expected.json").read_text())
    return str(SAVED / name), [(claim, text) for text, claim in expected["pairs"]], expected["probabilities"]


@pytest.mark.parametrize("batch_size", [1, 2, 32])
@pytest.mark.parametrize(("name", "grounded", "contrary"), [("bert", 1, None), ("roberta", 1, 0)])
def test_a_folder_that_transformers_and_optimum_wrote(
    name: str, grounded: int, contrary: int | None, batch_size: int
) -> None:
    path, pairs, probabilities = saved(name)
    for found, row in zip(weighed(path, pairs, batch_size=batch_size), probabilities, strict=True):
        expected = (row[grounded], 0.0 if contrary is None else row[contrary])
        assert found == pytest.approx(expected, abs=2e-5)
    assert len({row[grounded] for row in probabilities}) == len(pairs)


def test_a_pair_is_cut_where_the_model_ends(tmp_path: Path) -> None:
    for name, most in (("bert", 32), ("roberta", 30)):
        path, pairs, _ = saved(name)
        assert weighed(path, pairs, max_length=512) == weighed(path, pairs, max_length=most)
        assert weighed(path, pairs, max_length=most) != weighed(path, pairs, max_length=most - 4)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}}, "has the classes label_0, label_1, label_2 "),
        ({}, "has 3 classes, its config.json 2 (allowed: as many in id2label as the model has)"),
    ],
)
def test_a_config_of_another_model_is_refused(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / "roberta", tmp_path / "model")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError) as caught:
        Nli(str(folder))
    assert message in str(caught.value)


def test_a_model_that_asks_for_more_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(SAVED / "bert", tmp_path / "model")
    model = onnx.load(folder / "model.onnx")
    model.graph.input.append(helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "tokens"]))
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(
        ConfigError, match=r"asks for position_ids \(allowed: input_ids, attention_mask, token_type_ids"
    ):
        Nli(str(folder))


@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json"])
def test_what_cannot_be_loaded_is_found_before_a_run_begins(damaged: str, tmp_path: Path, capsys: Any) -> None:
    folder = shutil.copytree(SAVED / "bert", tmp_path / "model")
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:-100])
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"prompt": "a", "response": "cats sleep.", "retrieved_context": "cats sleep."}))
    metric = json.dumps([{"metric": "grounding", "checker": {"type": "nli", "path": str(folder)}}])
    given = ["--dataset", str(rows), "--set", f"metrics={metric}", "--output", str(tmp_path / "out")]
    for command in ("check", "run"):
        assert main([command, *given]) == 2
        said = capsys.readouterr().err
        assert f"checker.path: {damaged} of '{folder}' cannot be loaded: " in said
        assert "(allowed: what `optimum-cli export onnx` writes)" in said
    assert not (tmp_path / "out").exists()


def test_it_is_a_checker_like_any_other(model: str) -> None:
    request = {
        "answerCandidate": "cats sleep. Thanks!",
        "facts": [{"factText": "dogs bark."}, {"factText": "cats sleep."}],
    }
    spec = {"groundingSpec": {"citationThreshold": 0.3, "enableClaimLevelScore": True}}
    response = check_grounding({**request, **spec}, checker={"type": "nli", "path": model})
    assert response["supportScore"] == EXPECTED[0][0]
    assert [c["source"] for c in response["citedChunks"]] == ["1"]


def test_a_folder_on_another_filesystem_is_copied(model: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert weighed(f"bucket:/{model}", PAIRS) == EXPECTED
    assert not list(tmp_path.iterdir())  # the copy goes once it is loaded


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    part = registry.find("checker", "nli")
    with pytest.raises(ConfigError, match=r"checker.path: missing"):
        registry.build(part, {}, "checker")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"has no tokenizer.json, model.onnx \(allowed: there is config.json\)"):
        registry.build(part, {"path": str(tmp_path)}, "checker")
    for name in ("tokenizer.json", "model.onnx"):
        (tmp_path / name).write_text("{}")
    for text, found in (("{", r"config.json' is not JSON: "), ("[]", r"config.json' holds a list ")):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConfigError, match=rf"^checker.path: '.*{found}.*\(allowed: a JSON object\)"):
            registry.build(part, {"path": str(tmp_path)}, "checker")
