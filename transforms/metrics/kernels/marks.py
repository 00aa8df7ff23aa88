"""The tokens of BLEU, by the tokenizers of sacrebleu 2: intl, 13a, zh, none, char.

`intl`, `13a` and `zh` set marks apart: symbols (for zh also Chinese characters) always, and runs of other marks (all
punctuation for intl, else full stop and comma) by rules that regular expressions, one after the other, define. Their
joint effect on a run of k marks between the characters x and y is:

* inside the run every mark stands alone;
* the last mark also stays with what follows if y is a digit (but for 13a also the text's end) and the run is open:
  k odd and x a digit (but for 13a also the text's start), or k even and x anything else;
* the first mark stands apart from x, but for an open run of one, which stays with both sides.

13a and zh also set a hyphen apart after a digit. For intl, digits are all characters of category N.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from .arrays import Tokens, changes, dictionary, running
from .categories import NUMBERS, PUNCTUATION, SYMBOLS

TOKENIZERS = ("intl", "13a", "zh", "none", "char")
_OTHER, _SPACE, _DIGIT, _RUN, _ALONE, _HYPHEN = range(6)
_RUN_RULES, _WESTERN = ("intl", "13a", "zh"), ("13a", "zh")
_CHINESE = (
    *((0x2001, 0x2A6D), (0x2E80, 0x2FDF), (0x2FF0, 0x303F), (0x3100, 0x312F), (0x31A0, 0x31BF), (0x31C0, 0x31EF)),
    *((0x3200, 0x33FF), (0x3400, 0x4DB5), (0x4E00, 0x9FBB), (0xF900, 0xFA2D), (0xFA30, 0xFA6A), (0xFA70, 0xFAD9)),
    *((0xFE10, 0xFE1F), (0xFE30, 0xFE4F), (0xFF00, 0xFFEF), (0x2600, 0x27BF)),
)
"""sacrebleu's ranges of Chinese characters; the first is how Python reads its escapes for U+20000 to U+2A6D6."""
_SYMBOLS_13A = re.compile(r"[{-~\[-` -&(-+:-@/]")


def prepared(text: str, tokenizer: str, lowercase: bool) -> str:
    """Prepares a text for the tokenizer's rules: case, trailing spaces, and 13a's entities and line ends."""
    if lowercase:
        text = text.lower()
    text = text.rstrip()
    if tokenizer == "13a":
        text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
        if "&" in text:
            text = text.replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    return text.lstrip() if tokenizer == "zh" else text


def marks(text: str, tokenizer: str, lowercase: bool) -> list[str]:
    """Tokenizes one text by sacrebleu's regular expressions, one after the other."""
    text = prepared(text, tokenizer, lowercase)
    if tokenizer == "char":
        return [char for char in text if not char.isspace()]
    if tokenizer == "13a":
        text = f" {text} "
    for pattern, replacement in _substitutions(tokenizer):
        text = pattern.sub(replacement, text)
    return text.split()


@cache
def _substitutions(tokenizer: str) -> list[tuple[re.Pattern[str], str]]:
    if tokenizer == "intl":
        n, p, s = (_class(ranges) for ranges in (NUMBERS, PUNCTUATION, SYMBOLS))
        rules = [(f"([^{n}])([{p}])", r"\1 \2 "), (f"([{p}])([^{n}])", r" \1 \2"), (f"([{s}])", r" \1 ")]
    elif tokenizer in _WESTERN:
        rules = [
            *([(f"([{_class(_CHINESE)}])", r" \1 ")] if tokenizer == "zh" else []),
            (f"({_SYMBOLS_13A.pattern})", r" \1 "),
            (r"([^0-9])([.,])", r"\1 \2 "),
            (r"([.,])([^0-9])", r" \1 \2"),
            (r"([0-9])(-)", r"\1 \2 "),
        ]
    else:
        rules = []
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


def _class(ranges: Sequence[tuple[int, int]]) -> str:
    return "".join(f"\\U{low:08X}-\\U{high:08X}" for low, high in ranges)


def mark_tokens(texts: Sequence[str], tokenizer: str, lowercase: bool) -> Tokens:
    """Tokenizes many texts at once; the result has no lines."""
    if lowercase or tokenizer in _WESTERN:
        ready = [prepared(text, tokenizer, lowercase) for text in texts]
    else:
        ready = [text.rstrip() for text in texts]
    codes, alphabet = _codes("\n".join(("", *ready, "")))
    ends = running(np.fromiter(map(len, ready), np.int32, len(ready)) + 1)
    inside, starts, stops = _cut(_kinds_of(codes, alphabet, tokenizer), ends, tokenizer)
    ids, _ = dictionary(codes.compress(inside), stops - starts)
    return Tokens(ids, np.searchsorted(starts, ends), np.empty(0, np.int64))


def _codes(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Encodes a text as numbers of 8 or 32 bits; returns them and the code point of each number."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8), np.arange(128)
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    far = np.flatnonzero(points > 127)
    others, which = np.unique(points[far], return_inverse=True)
    codes = points.astype(np.uint8 if len(others) <= 128 else np.uint32)
    codes[far] = which + 128
    return codes, np.concatenate((np.arange(128), others))


@lru_cache(maxsize=len(TOKENIZERS))
def _kinds(tokenizer: str) -> np.ndarray:
    """Returns the kind of each code point for a tokenizer, uint8."""
    kinds = np.zeros(0x110000, np.uint8)
    if tokenizer == "intl":
        for kind, ranges in ((_DIGIT, NUMBERS), (_RUN, PUNCTUATION), (_ALONE, SYMBOLS)):
            for low, high in ranges:
                kinds[low : high + 1] = kind
    elif tokenizer in _WESTERN:
        kinds[48:58] = _DIGIT
        kinds[[ord("."), ord(",")]] = _RUN
        kinds[ord("-")] = _HYPHEN
        kinds[[code for code in range(33, 128) if _SYMBOLS_13A.match(chr(code))]] = _ALONE
        for low, high in _CHINESE if tokenizer == "zh" else ():
            kinds[low : high + 1] = _ALONE
    elif tokenizer == "char":
        kinds[:] = _ALONE
    kinds[[code for code in range(0x3001) if chr(code).isspace()]] = _SPACE
    return kinds


def _kinds_of(codes: np.ndarray, alphabet: np.ndarray, tokenizer: str) -> np.ndarray:
    kinds = _kinds(tokenizer)[alphabet]
    if codes.itemsize > 1:
        return kinds[codes]
    table = np.zeros(256, np.uint8)
    table[: len(kinds)] = kinds
    return np.frombuffer(codes.tobytes().translate(table.tobytes()), np.uint8)


def _cut(kinds: np.ndarray, ends: np.ndarray, tokenizer: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds the tokens.

    Args:
        kinds: Kinds of all characters; before and after each text is a space.
        ends: Indices of these spaces.

    Returns:
        (bool for each character, true within tokens; index before each token; index of its last character)
    """
    alone = kinds == _ALONE
    sticks = np.empty(0, np.int64)
    if tokenizer in _RUN_RULES:
        sticks = _runs(kinds, ends, alone, edge_is_digit=tokenizer != "13a")
    if tokenizer in _WESTERN:
        hyphens = np.flatnonzero(kinds == _HYPHEN)
        alone[hyphens] = kinds[hyphens - 1] == _DIGIT
    inside = kinds != _SPACE
    solid = inside > alone
    joined = solid[1:] & solid[:-1]
    joined[sticks - 1] = True
    return inside, np.flatnonzero(inside[1:] > joined), np.flatnonzero(inside[:-1] > joined)


def _runs(kinds: np.ndarray, ends: np.ndarray, alone: np.ndarray, *, edge_is_digit: bool) -> np.ndarray:
    """Sets in `alone` the marks that are tokens of their own; returns the indices joined to the mark before them."""
    at = np.flatnonzero(kinds == _RUN)
    edges = changes(at - np.arange(len(at)))
    starts, lengths = at[edges[:-1]], np.diff(edges)
    stops = starts + lengths
    digit = kinds == _DIGIT
    if edge_is_digit:
        digit[ends] = True
    is_open = digit[stops] & ((lengths % 2 == 1) == digit[starts - 1])
    alone[at] = True
    single = is_open & (lengths == 1)
    alone[starts[single]] = False
    return stops[is_open & ~single & (kinds[stops] == _DIGIT)]
