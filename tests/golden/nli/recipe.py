"""Makes the models beside this file, by transformers and optimum, with random weights; and what torch says of pairs.

Run once, in an environment of its own: pip install 'optimum-onnx[onnxruntime]==0.1.0' 'transformers==4.57.6'
'torch==2.15.0'; python recipe.py. The tests read what it left.
"""

import json
import string
import tempfile
from pathlib import Path

import torch
from optimum.exporters.onnx import main_export
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaTokenizerFast,
)

HERE = Path(__file__).parent
KEPT = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.onnx")
LABELS = ("contradiction", "entailment", "neutral")
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PAIRS = [
    ("cats sleep", "cats sleep."),
    ("dogs bark", "cats not sleep"),
    ("a dog", "cats sleep, dogs bark, dogs"),
    ("Cats sleep. " * 30, "dogs bark"),
    ("", "cats"),
    ("naïve 猫 😀", "cats"),
]


def bert(work: Path) -> tuple:
    """Two classes without names, which the config leaves out; type ids; a tokenizer that knows no limit."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [*string.ascii_lowercase, *(f"##{c}" for c in string.ascii_lowercase)]
    words = [*special, *letters, "cats", "sleep", "dogs", "bark", "not", ".", ","]
    (work / "vocab.txt").write_text("\n".join(words))
    config = BertConfig(vocab_size=len(words), max_position_embeddings=32, initializer_range=1.0, **SMALL)
    return BertForSequenceClassification(config), BertTokenizerFast(str(work / "vocab.txt")), 32


def roberta(work: Path) -> tuple:
    """Three classes with names; no type ids; 1 for padding; positions that begin at 2."""
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(["cats sleep", "dogs bark not"] * 10, vocab_size=280, special_tokens=special)
    trained.save_model(str(work))
    names = {"id2label": dict(enumerate(LABELS)), "label2id": {name: i for i, name in enumerate(LABELS)}}
    config = RobertaConfig(
        vocab_size=280, max_position_embeddings=32, pad_token_id=1, type_vocab_size=1, initializer_range=1.0,
        **SMALL, **names,
    )  # fmt: skip
    files = (str(work / "vocab.json"), str(work / "merges.txt"))
    return RobertaForSequenceClassification(config), RobertaTokenizerFast(*files, model_max_length=30), 30


def make(name: str, model: torch.nn.Module, tokenizer: object, limit: int, work: Path) -> None:
    """Saves a model, exports it, and keeps what torch says of the pairs."""
    tokenizer("a", "b", padding="max_length", truncation=True, max_length=8)  # its settings are saved with it
    for part in (model, tokenizer):
        part.save_pretrained(work / "saved")
    main_export(str(work / "saved"), str(work / "exported"), task="text-classification", do_validation=False)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    for file in KEPT:
        (folder / file).write_bytes((work / "exported" / file).read_bytes())
    texts, claims = zip(*PAIRS, strict=True)
    given = tokenizer(texts, claims, padding=True, truncation="only_first", max_length=limit, return_tensors="pt")
    with torch.no_grad():
        probabilities = model(**given).logits.softmax(-1).tolist()
    expected = {"pairs": PAIRS, "probabilities": probabilities}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for maker in (bert, roberta):
        torch.manual_seed(7)
        with tempfile.TemporaryDirectory() as folder:
            made, words, most = maker(Path(folder))
            make(maker.__name__, made.eval(), words, most, Path(folder))
