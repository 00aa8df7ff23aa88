"""The checker `nli`: a cross-encoder for natural language inference, on the CPU."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...schemas.errors import ConfigError
from ...schemas.json import Json
from ...schemas.values import kind_of
from ..grounding.passages import Text
from ..registry import require_module
from .base import PairChecker, Verdict, register

DECIMALS = 5
"""Decimals of probabilities; further ones depend on which pairs share a batch."""
_NEEDED = ("tokenizer.json", "config.json")
_LIMITS = "tokenizer_config.json"
_MODELS = ("model.onnx", "onnx/model.onnx")
_UNNAMED = {"0": "LABEL_0", "1": "LABEL_1"}
"""The names of two unnamed classes, which transformers omits from the config."""
_DENIED = r"(?<![a-z])(?<!\bno[ _-])(?<!no[nt][ _-])"
_GROUNDED = re.compile(_DENIED + "(entail|support|consistent)")
_CONTRARY = re.compile(_DENIED + "(contra|refut)")


@register("checker", "nli")
@dataclass(frozen=True)
class Nli(PairChecker):
    """Classifies pairs of text and claim with an ONNX cross-encoder for natural language inference.

    Works with any sequence classifier of pairs (text, claim) exported by `optimum-cli export onnx`: with three classes
    (entailment, neutral, contradiction, by their names in the config), two classes (supported or not; of two unnamed
    ones the second is "supported") or a single logit. Without a class for contradiction nothing is contradicted. Needs
    `pip install 'evalbeam[nli]'`.

    Attributes:
        path: Folder with model.onnx, tokenizer.json and config.json, on any filesystem that Beam can open. It is loaded
            once per process; a local folder is loaded before the run starts, so that an unusable model is an error of
            the configuration.
        max_length: Maximum tokens of a pair, unless the model's own limit is lower; a model of a fixed width gets all
            pairs padded to it. The text of a longer pair is
            truncated; the claim only if it alone exceeds the limit.
        batch_size: Pairs per batch.
        threads: Threads per batch; 0 for one per core.
    """

    path: str = ""
    max_length: int = 512
    batch_size: int = 32
    threads: int = 0

    def __post_init__(self) -> None:
        for module in ("onnxruntime", "tokenizers"):
            require_module(module, "nli", "the checker nli", "checker")
        if not self.path:
            raise ConfigError("missing", where="checker.path", allowed="folder of a model")
        _list_files(self.path)
        _read_classes(_read_json(self.path, "config.json"), self.path)
        if "://" not in self.path:
            _load_model(self.path, self.max_length, self.threads)

    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """Returns one verdict for each pair; pairs of similar length share a batch, to save padding."""
        model = _load_model(self.path, self.max_length, self.threads)
        encoded = model.encode([(premise.text, claim.text) for claim, premise in pairs])
        order = sorted(range(len(pairs)), key=lambda i: (len(encoded[i].ids), i))
        verdicts: dict[int, Verdict] = {}
        for at in range(0, len(order), self.batch_size):
            chosen = order[at : at + self.batch_size]
            for i, verdict in zip(chosen, model.verdicts([encoded[i] for i in chosen]), strict=True):
                verdicts[i] = verdict
        return [verdicts[i] for i in range(len(pairs))]


_GIVEN = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of a model and their names in tokenizers."""


class _Classes(NamedTuple):
    """The number of outputs of the model, and the indices of entailment and contradiction."""

    count: int
    grounded: int
    contrary: int | None


@dataclass(frozen=True)
class _Model:
    tokenizer: Any
    cutting: Any
    session: Any
    classes: _Classes
    padding: int
    width: int | None

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        try:
            return self.tokenizer.encode_batch(pairs)
        except Exception:  # a claim alone exceeds the limit; the library has no exception type for it
            if len(pairs) > 1:
                return [self.encode([pair])[0] for pair in pairs]
            return self.cutting.encode_batch(pairs)

    def verdicts(self, encoded: Sequence[Any]) -> Iterator[Verdict]:
        width = self.width or max(len(e.ids) for e in encoded)

        def pad(rows: Sequence[Sequence[int]], filler: int) -> np.ndarray:
            return np.array([[*row, *[filler] * (width - len(row))] for row in rows], np.int64)

        ids, mask, types = ([getattr(e, name) for e in encoded] for name in _GIVEN.values())
        given = dict(zip(_GIVEN, (pad(ids, self.padding), pad(mask, 0), pad(types, 0)), strict=True))
        names = [i.name for i in self.session.get_inputs()]
        logits = self.session.run(None, {name: given[name] for name in names})[0]
        for row in _to_probabilities(logits.astype(np.float64).reshape(len(encoded), -1)):
            contrary = self.classes.contrary
            yield Verdict(float(row[self.classes.grounded]), 0.0 if contrary is None else float(row[contrary]))


@lru_cache(maxsize=2)
def _load_model(path: str, max_length: int, threads: int) -> _Model:
    """Loads the model of a folder, once per process.

    Raises:
        ConfigError: The model cannot be loaded or used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with _fetch(path) as (folder, model):
        config = _read_json(str(folder), "config.json")
        most = min(max_length, _find_max_tokens(str(folder), config))
        with _loading(path, "tokenizer.json"):
            tokenizer, cutting = (_load_tokenizer(folder) for _ in range(2))
        with _loading(path, model):
            session = onnxruntime.InferenceSession(str(folder / model), options, providers=["CPUExecutionProvider"])
    width = _find_width(session, path)
    most = min(most, width or most)
    for one, strategy in ((tokenizer, "only_first"), (cutting, "longest_first")):
        one.no_padding()
        one.enable_truncation(most, strategy=strategy)
    classes = _read_classes(config, path)
    _check_model(session, classes, path)
    return _Model(tokenizer, cutting, session, classes, int(config.get("pad_token_id") or 0), width)


def _find_width(session: Any, path: str) -> int | None:
    """Returns the number of tokens that all pairs are padded to; `None` if the model takes any number.

    Raises:
        ConfigError: The model takes a fixed number of pairs.
    """
    shapes = [i.shape for i in session.get_inputs()]
    if pairs := next((shape[0] for shape in shapes if isinstance(shape[0], int)), None):
        found = f"the model of {path!r} takes batches of {pairs} pairs only"
        raise ConfigError(found, where="checker.path", allowed="an export with a dynamic batch size")
    return next((shape[1] for shape in shapes if isinstance(shape[1], int)), None)


def _load_tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@contextmanager
def _loading(path: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # neither library has an exception type for it
        found = f"{name} of {path!r} cannot be loaded: {' '.join(str(error).split())[:300]}"
        raise ConfigError(found, where="checker.path", allowed="what `optimum-cli export onnx` writes") from error


def _check_model(session: Any, classes: _Classes, path: str) -> None:
    """Checks the model's inputs, and that its number of classes agrees with its config.

    Raises:
        ConfigError: An input is unknown, or the numbers of classes differ.
    """
    for name in (i.name for i in session.get_inputs()):
        if name not in _GIVEN:
            raise ConfigError(f"the model of {path!r} asks for {name}", where="checker.path", allowed=", ".join(_GIVEN))
    columns = session.get_outputs()[0].shape[-1]
    if isinstance(columns, int) and columns != classes.count:
        found = f"the model of {path!r} has {columns} classes, its config.json {classes.count}"
        raise ConfigError(found, where="checker.path", allowed="as many in id2label as the model has")


def _list_files(path: str) -> list[str]:
    """Lists the files of a model, relative to its folder.

    Raises:
        ConfigError: A required file is missing.
    """
    from ..io import storage

    root = path.rstrip("/") + "/"
    found = [file.removeprefix(root) for file in storage.below(path)]
    missing = [name for name in _NEEDED if name not in found]
    if not any(name in found for name in _MODELS):
        missing.append(_MODELS[0])
    if missing:
        there = ", ".join(found[:10]) or "nothing"
        raise ConfigError(f"{path!r} has no {', '.join(missing)}", where="checker.path", allowed=f"there is {there}")
    return found


@contextmanager
def _fetch(path: str) -> Iterator[tuple[Path, str]]:
    """Yields the local folder and the model file; a remote model is copied to a temporary folder."""
    from ..io import storage

    found = _list_files(path)
    model = next(name for name in _MODELS if name in found)
    if "://" not in path:
        yield Path(path), model
        return
    with tempfile.TemporaryDirectory(prefix="evalbeam-nli-") as copied:
        folder = Path(copied)
        for name in found:
            if name in (*_NEEDED, _LIMITS) or name.startswith(model):  # model.onnx, and model.onnx_data beside it
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(storage.read_bytes(storage.join(path, name)))
        yield folder, model


def _read_json(folder: str, name: str) -> Mapping[str, Json]:
    """Reads the object in a JSON file of the folder.

    Raises:
        ConfigError: The file is not JSON or holds no object.
    """
    import orjson

    from ..io import storage

    path = storage.join(folder, name)
    try:
        found = orjson.loads(storage.read_bytes(path))
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path!r} is not JSON: {error}", where="checker.path", allowed="a JSON object") from None
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path!r} holds {kind_of(found)}", where="checker.path", allowed="a JSON object")
    return found


def _find_max_tokens(folder: str, config: Mapping[str, Json]) -> int:
    """Returns the model's maximum number of tokens: its positions or its tokenizer's limit, whichever is lower."""
    found = [config.get("max_position_embeddings")]
    if (Path(folder) / _LIMITS).exists():
        found.append(_read_json(folder, _LIMITS).get("model_max_length"))
    return int(min((n for n in found if n), default=sys.maxsize))


def _read_classes(config: Mapping[str, Json], path: str) -> _Classes:
    """Finds the classes by their names in `id2label`.

    Raises:
        ConfigError: There are several classes, and none or more than one is named entailment or support.
    """
    names = {int(i): str(name).casefold() for i, name in (config.get("id2label") or _UNNAMED).items()}
    if len(names) == 1:
        return _Classes(1, 0, None)

    def named(words: re.Pattern[str]) -> int | None:
        told = [i for i, name in names.items() if words.search(name)]
        return told[0] if len(told) == 1 else None

    grounded = 1 if names == {0: "label_0", 1: "label_1"} else named(_GROUNDED)
    if grounded is None:
        allowed = "one class that is named entailment, supported or consistent in id2label, or two without names"
        raise ConfigError(
            f"{path!r} has the classes {', '.join(names.values())}", where="checker.path", allowed=allowed
        )
    return _Classes(len(names), grounded, named(_CONTRARY))


def _to_probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns float64[pairs, classes]: softmax over several classes, the logistic function of a single logit."""
    if logits.shape[1] == 1:
        found = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
    else:
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        found = powers / powers.sum(axis=1, keepdims=True)
    return np.round(found, DECIMALS)
