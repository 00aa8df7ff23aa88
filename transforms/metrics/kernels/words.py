"""The words of ROUGE: the tokens of rouge-score 0.1.2, and those of google-adk 2.13 for all scripts.

The default tokenizer lower-cases text and keeps runs of [a-z0-9], so other scripts have no words. The Unicode tokenizer
keeps alphanumeric characters and combining marks of every script (NFKC, lower case); each Chinese, Japanese or Korean
character is a word, and in Thai, Lao, Khmer and Burmese each base character with its marks.
Both work on UTF-8 bytes, which is exact because only U+0130 and U+212A have ASCII letters in their lower case.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arrays import Tokens, dictionary, listed, relabel, running
from .stem import stems

_SPACE, _NEWLINE = 32, 10


@dataclass(frozen=True, slots=True)
class WordRule:
    """How a text is split into words: all scripts or only [a-z0-9], stemmed or not."""

    unicode: bool = False
    stem: bool = False


def _table(high: bool) -> bytes:
    def image(byte: int) -> int:
        if chr(byte).isalnum() and byte < 128:
            return ord(chr(byte).lower())
        return byte if byte == _NEWLINE or (high and byte >= 128) else _SPACE

    return bytes(image(byte) for byte in range(256))


_ASCII_TABLE, _UNICODE_TABLE = _table(high=False), _table(high=True)
_CHARACTER_WORDS = ((0x4E00, 0x9FFF), (0x3040, 0x309F), (0x30A0, 0x30FF), (0xAC00, 0xD7AF))
_UNSPACED = ((0x0E00, 0x0E7F), (0x0E80, 0x0EFF), (0x1780, 0x17FF), (0x1000, 0x109F))


def _spaced(char: str) -> str:
    """Returns the replacement of a character, so that splitting at spaces gives words."""
    code = ord(char)
    if any(low <= code <= high for low, high in _CHARACTER_WORDS):
        return f" {char} "
    is_mark = unicodedata.category(char).startswith("M")
    if any(low <= code <= high for low, high in _UNSPACED):
        return char if is_mark else f" {char}"
    return char if is_mark or char.isalnum() or char == "\n" else " "


class _Spacing(dict[int, str]):
    """A `str.translate` table that is filled on first use of each character."""

    def __missing__(self, code: int) -> str:
        image = self[code] = _spaced(chr(code))
        return image


_spacing = _Spacing()


def _prepared(text: str, rule: WordRule) -> bytes:
    """Returns the UTF-8 bytes of the text, in which every word is a run of word bytes."""
    if not text.isascii():
        if rule.unicode:
            text = unicodedata.normalize("NFKC", text).lower().translate(_spacing)
        else:
            text = text.replace("\u0130", "i ").replace("\u212a", "k")
    return text.encode("utf-8", "surrogatepass")


def words(text: str, rule: WordRule) -> list[bytes]:
    """Splits one text into words, in order, lower case, UTF-8."""
    found = _prepared(text, rule).translate(_UNICODE_TABLE if rule.unicode else _ASCII_TABLE).split()
    return stems(found) if rule.stem else found


def word_tokens(texts: Sequence[str], rule: WordRule) -> Tokens:
    """Splits many texts into words at once; lines of a text end at "\n"."""
    parts = [text.encode() if text.isascii() else _prepared(text, rule) for text in texts]
    united = b"\n".join((b"", *parts, b"")).translate(_UNICODE_TABLE if rule.unicode else _ASCII_TABLE)
    codes = np.frombuffer(united, np.uint8)
    inside = codes > _SPACE
    edges = np.flatnonzero(inside[1:] != inside[:-1])
    starts, lengths = edges[::2], edges[1::2] - edges[::2]
    ids, values = dictionary(codes.compress(inside), lengths)
    if rule.stem:
        ids = relabel(ids, stems(listed(values)))
    ends = running(np.fromiter(map(len, parts), np.int32, len(parts)) + 1)
    newlines = np.flatnonzero(codes == _NEWLINE)
    return Tokens(ids, np.searchsorted(starts, ends), np.searchsorted(starts, newlines[:-1]))
