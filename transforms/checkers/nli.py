"""A sentence-pair classifier as a checker: a cross-encoder for natural language inference, on the CPU."""

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
"""Of probabilities: below, they depend on which pairs stand in one batch."""
_NEEDED = ("tokenizer.json", "config.json")
_LIMITS = "tokenizer_config.json"
_MODELS = ("model.onnx", "onnx/model.onnx")
_UNNAMED = {"0": "LABEL_0", "1": "LABEL_1"}
"""What transformers leaves out of the config of a model with two classes."""
_DENIED = r"(?<![a-z])(?<!\bno[ _-])(?<!no[nt][ _-])"
_GROUNDED = re.compile(_DENIED + "(entail|support|consistent)")
_CONTRARY = re.compile(_DENIED + "(contra|refut)")


@register("checker", "nli")
@dataclass(frozen=True)
class Nli(PairChecker):
    """Asks a cross-encoder whether a text entails a claim: a folder with model.onnx, tokenizer.json and config.json.

    Any sequence classifier of pairs (text, claim) that was exported to ONNX, as `optimum-cli export onnx` writes it:
    with three classes (entailment, neutral, contradiction, by the names in the config), two (supported or not; of two
    without names the second is taken to say so) or a single logit. Without a class for contradiction nothing is
    contradicted. Needs `pip install 'evalbeam[nli]'`.

    Attributes:
        path: The folder, on any filesystem Beam opens; loaded once in each process, and from a disk at once, so that a
            model that cannot be used is refused before a run begins.
        max_length: Tokens of a pair, where the model reads so many; of a longer one the end of the text is left out,
            and of the claim only where it is longer than that itself.
        batch_size: Pairs that go through the model at once.
        threads: Threads for one batch, 0: as many as there are cores.
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
        _files(self.path)
        _classes(_read(self.path, "config.json"), self.path)
        if "://" not in self.path:
            _model(self.path, self.max_length, self.threads)

    def weigh(self, pairs: Sequence[tuple[Text, Text]]) -> list[Verdict]:
        """One verdict for each pair; pairs of about the same length share a batch."""
        model = _model(self.path, self.max_length, self.threads)
        encoded = model.encoded([(premise.text, claim.text) for claim, premise in pairs])
        order = sorted(range(len(pairs)), key=lambda i: (len(encoded[i].ids), i))
        verdicts: dict[int, Verdict] = {}
        for at in range(0, len(order), self.batch_size):
            chosen = order[at : at + self.batch_size]
            for i, verdict in zip(chosen, model.verdicts([encoded[i] for i in chosen]), strict=True):
                verdicts[i] = verdict
        return [verdicts[i] for i in range(len(pairs))]


_GIVEN = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""What a model may be given, and what tokenizers call it."""


class _Classes(NamedTuple):
    """How many outputs the model has, and which of them mean what."""

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

    def encoded(self, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        try:
            return self.tokenizer.encode_batch(pairs)
        except Exception:  # a claim alone is longer than the model reads; the library has no type of its own for it
            if len(pairs) > 1:
                return [self.encoded([pair])[0] for pair in pairs]
            return self.cutting.encode_batch(pairs)

    def verdicts(self, encoded: Sequence[Any]) -> Iterator[Verdict]:
        width = max(len(e.ids) for e in encoded)

        def padded(rows: Sequence[Sequence[int]], filler: int) -> np.ndarray:
            return np.array([[*row, *[filler] * (width - len(row))] for row in rows], np.int64)

        ids, mask, types = ([getattr(e, name) for e in encoded] for name in _GIVEN.values())
        given = dict(zip(_GIVEN, (padded(ids, self.padding), padded(mask, 0), padded(types, 0)), strict=True))
        names = [i.name for i in self.session.get_inputs()]
        logits = self.session.run(None, {name: given[name] for name in names})[0]
        for row in _probabilities(logits.astype(np.float64).reshape(len(encoded), -1)):
            contrary = self.classes.contrary
            yield Verdict(float(row[self.classes.grounded]), 0.0 if contrary is None else float(row[contrary]))


@lru_cache(maxsize=2)
def _model(path: str, max_length: int, threads: int) -> _Model:
    """The model of a folder, loaded once in each process.

    Raises:
        ConfigError: It cannot be loaded, or used.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with _local(path) as (folder, model):
        config = _read(str(folder), "config.json")
        most = min(max_length, _most(str(folder), config))
        with _loading(path, "tokenizer.json"):
            tokenizer, cutting = (_tokenizer(folder) for _ in range(2))
        with _loading(path, model):
            session = onnxruntime.InferenceSession(str(folder / model), options, providers=["CPUExecutionProvider"])
    for one, strategy in ((tokenizer, "only_first"), (cutting, "longest_first")):
        one.no_padding()
        one.enable_truncation(most, strategy=strategy)
    classes = _classes(config, path)
    _check(session, classes, path)
    return _Model(tokenizer, cutting, session, classes, int(config.get("pad_token_id") or 0))


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@contextmanager
def _loading(path: str, name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # neither library has a type of its own for it
        found = f"{name} of {path!r} cannot be loaded: {' '.join(str(error).split())[:300]}"
        raise ConfigError(found, where="checker.path", allowed="what `optimum-cli export onnx` writes") from error


def _check(session: Any, classes: _Classes, path: str) -> None:
    """Looks whether the model can be given what there is, and gives what its config says.

    Raises:
        ConfigError: It cannot, or does not.
    """
    for name in (i.name for i in session.get_inputs()):
        if name not in _GIVEN:
            raise ConfigError(f"the model of {path!r} asks for {name}", where="checker.path", allowed=", ".join(_GIVEN))
    columns = session.get_outputs()[0].shape[-1]
    if isinstance(columns, int) and columns != classes.count:
        found = f"the model of {path!r} has {columns} classes, its config.json {classes.count}"
        raise ConfigError(found, where="checker.path", allowed="as many in id2label as the model has")


def _files(path: str) -> list[str]:
    """The files of a model, relative to its folder.

    Raises:
        ConfigError: One is missing.
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
def _local(path: str) -> Iterator[tuple[Path, str]]:
    """The model's folder on this machine, and its model file; a copy is there until it has been loaded."""
    from ..io import storage

    found = _files(path)
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


def _read(folder: str, name: str) -> Mapping[str, Json]:
    """The object that a JSON file of the folder holds.

    Raises:
        ConfigError: It holds none.
    """
    import orjson

    from ..io import storage

    path = storage.join(folder, name)
    try:
        found = orjson.loads(storage.read_bytes(path))
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{path!r} is no JSON: {error}", where="checker.path", allowed="a JSON object") from None
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path!r} holds {kind_of(found)}", where="checker.path", allowed="a JSON object")
    return found


def _most(folder: str, config: Mapping[str, Json]) -> int:
    """Tokens that the model reads at most: its positions, or what its tokenizer was saved with, which may be fewer."""
    found = [config.get("max_position_embeddings")]
    if (Path(folder) / _LIMITS).exists():
        found.append(_read(folder, _LIMITS).get("model_max_length"))
    return int(min((n for n in found if n), default=sys.maxsize))


def _classes(config: Mapping[str, Json], path: str) -> _Classes:
    """The classes by their names.

    Raises:
        ConfigError: None of several classes is called entailment or support.
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


def _probabilities(logits: np.ndarray) -> np.ndarray:
    """float64[pairs, classes]: softmax over several classes, the logistic function of a single one."""
    if logits.shape[1] == 1:
        found = 1 / (1 + np.exp(-np.clip(logits, -50, 50)))
    else:
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        found = powers / powers.sum(axis=1, keepdims=True)
    return np.round(found, DECIMALS)
