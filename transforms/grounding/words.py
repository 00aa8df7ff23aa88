"""Words for comparing claims with passages, independent of inflection, case and the form of digits.

Unlike the words of the text metrics (metrics/kernels), which reproduce other libraries, these have a kind: wrong claims
are usually wrong in names, numbers and negations.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["plain", "function", "name", "number", "negation"]

FUNCTION_WEIGHT = 0.25
"""Weight of a function word; a content word has weight 1."""

_FUNCTION_WORDS = """
a about after all also an and any are as at be because been before being both but by can could did do does doing done
each ever for from had has have having he her here him his how if in into is it its itself just may might more most much
must of off on one only or other over own same shall she should so some such than that the their them then there these
they this those through to too under until up very was were what when where which while who whom whose why will with
would s d ll re ve ca wo
"""
_WEAK_WORDS = """
based led lead leads leading named known considered located situated per said says say stated states cites cited
est sont était ist sind waren wurde wurden è sono são é es
claims claimed reports reported mentions mentioned notes noted according currently
"""
_FUNCTION = frozenset((_FUNCTION_WORDS + _WEAK_WORDS).split())
"""English function words, and verbs of reporting and linking that say little themselves (some
of other languages too). "I", "you" and "we" are not
among them: facts rarely mention the speakers."""
_NEGATION_WORDS = """
not never no none neither nor without cannot nobody nothing nowhere fail fails failed lack lacks lacked
pas jamais aucun aucune nicht kein keine keinen keiner keinem nie niemals niet geen non nunca
ningún ninguna não nem mai nessuno не нет ни никогда 不 没 沒 無 لا لم ليس لن
नहीं मत
"""
_NEGATIONS = frozenset(_NEGATION_WORDS.split())
_NUMBER_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty
"""
_NUMBERS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split()) if word not in _FUNCTION}
_IRREGULAR_FORMS = """
became become began begin begun begin bought buy brought bring built build came come caught catch chose choose chosen
choose drew draw drove drive driven drive fell fall fallen fall fought fight flew fly gave give given give grew grow
grown grow held hold kept keep knew know lent lend lost lose made make met meet paid pay ran run rose rise risen rise
sang sing saw see seen see sent send sold sell spent spend spoke speak stood stand swam swim taught teach told tell took
take taken take thought think threw throw went go gone go won win wore wear worn wear wrote write written write
"""
_IRREGULAR: dict[str, str] = dict(zip(_IRREGULAR_FORMS.split()[::2], _IRREGULAR_FORMS.split()[1::2], strict=True))
"""Past forms of English verbs and their infinitives."""
_UNIT_NAMES = """
kg kilogram kgs kilogram kilo kilogram kilos kilogram g gram mg milligram lb pound lbs pound km kilometre kms kilometre
kilometer kilometre kilometers kilometre m metre meter metre meters metre cm centimetre mm millimetre ml millilitre l
litre liter litre liters litre h hour hr hour hrs hour min minute mins minute sec second eur euro usd dollar pct percent
"""
_UNITS: dict[str, str] = dict(zip(_UNIT_NAMES.split()[::2], _UNIT_NAMES.split()[1::2], strict=True))
_SYMBOLS = {"%": " percent", "€": " euro ", "$": " dollar ", "£": " pound "}
_AMOUNT = re.compile(r"([$€£])(\d[\d.,]*\d|\d)")
_SYMBOL = re.compile("[%€$£]")
_IS = re.compile(r"(?<=\bit|\bhe)'s\b|(?<=\bshe|\bwho)'s\b|(?<=\bthat|\bwhat)'s\b|(?<=\bthere)'s\b", re.IGNORECASE)
_HALF_OF_DAY = re.compile(r"\b([ap])\.m\b\.?", re.IGNORECASE)
_MONTH_NAMES = "January February March April May June July August September October November December"
_MONTHS = _MONTH_NAMES.split()
_DAY_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_STEM = itemgetter(0)
_ISO_DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words; each character is a word."""
_AROUND = '.,:;!?()"'
"""Marks around a word that are no part of it."""
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}(\.\d{3}){2,}")


_LONGEST_KNOWN, _MOST_KNOWN = 40, 500_000
"""Characters of a token up to which it is cached (longer ones, such as URLs, rarely repeat), and entries of a cache."""


class Word(NamedTuple):
    """A word as it is compared: its stem (lower case; the value of a number), its kind and its weight."""

    stem: str
    kind: Kind
    weight: float


Sentence: TypeAlias = Sequence[Word]


def iter_stems(sentence: Sentence) -> Iterator[str]:
    """Iterates over the stems of words."""
    return map(_STEM, sentence)


def split_words(text: str) -> list[Word]:
    """Splits a text into words; ISO 8601 dates become month, day and year."""
    return list(chain.from_iterable(map(_known.__getitem__, text.split())))


def split_stems(text: str) -> tuple[str, ...]:
    """Returns the stems of the words of a text, in order."""
    return tuple(chain.from_iterable(map(_known_stems.__getitem__, text.split())))


class _Known(dict[str, tuple[Word, ...]]):
    """A cache from a whitespace-separated token to its words; it is cleared when it is full, to bound memory."""

    def __missing__(self, piece: str) -> tuple[Word, ...]:
        bare = piece.strip(_AROUND)
        if bare.isascii() and bare.isalpha():
            found = (_make_word(bare),) if bare == piece else self[bare]
        else:
            found = _read_words(piece)
        if len(piece) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[piece] = found
        return found


def _read_words(piece: str) -> tuple[Word, ...]:
    text = _IS.sub(" is", piece.replace("’", "'").replace("n't", " not"))
    text = _SYMBOL.sub(lambda m: _SYMBOLS[m[0]], _AMOUNT.sub(r"\2\1", _HALF_OF_DAY.sub(r"\1m", text)))
    text = _ISO_DATE.sub(lambda m: f"{_MONTHS[int(m[2]) - 1]} {int(m[3])} {m[1]}", text)
    return tuple(map(_make_word, _compile_pattern().findall(text)))


class _KnownStems(dict[str, tuple[str, ...]]):
    """The same, to the stems of these words."""

    def __missing__(self, piece: str) -> tuple[str, ...]:
        found = tuple(iter_stems(_known[piece]))
        if len(piece) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[piece] = found
        return found


_known, _known_stems = _Known(), _KnownStems()


@cache
def _compile_pattern() -> re.Pattern[str]:
    marks = _character_ranges(("Mn", "Mc"))
    letter = rf"[^\W\d_{_UNSPACED}]"
    return re.compile(rf"\d+(?:[.,]\d+)*|{letter}+(?:[{marks}]+{letter}*)*(?:['’]{letter}+)?|[{_UNSPACED}][{marks}]*")


def _character_ranges(categories: tuple[str, ...]) -> str:
    """Returns the characters of the basic plane in these Unicode categories, as ranges of a regular expression."""
    codes = [c for c in range(0x300, 0x10000) if unicodedata.category(chr(c)) in categories]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in ranges)


def _make_word(found: str) -> Word:
    if found[0].isdigit():
        return Word(_normalize_number(found), "number", 1.0)
    folded = _drop_apostrophe(found.casefold().replace("’", "'"))
    if folded in _NEGATIONS:
        return Word("not", "negation", FUNCTION_WEIGHT)
    if len(found) == 1 and found.isupper() and found not in "AIOÈÉ":  # "Model S"
        return Word(folded, "name", 1.0)
    if folded in _FUNCTION and found != "May":
        return Word(folded, "function", FUNCTION_WEIGHT)
    if folded in _NUMBERS:
        return Word(_NUMBERS[folded], "number", 1.0)
    if folded in _UNITS:
        return Word(stem(_UNITS[folded]), "plain", 1.0)
    is_name = found[0].isupper() and folded != "i"
    return Word(stem(_IRREGULAR.get(folded, folded)), "name" if is_name else "plain", 1.0)


def _drop_apostrophe(word: str) -> str:
    """Returns the longer part of a word with an apostrophe: "it" of "it's", "australie" of "l'australie"."""
    head, _, rest = word.partition("'")
    return rest if len(rest) > max(len(head), 2) else head


def _normalize_number(found: str) -> str:
    """Normalizes a number to ASCII digits without thousands separators, leading and trailing zeros."""
    if _GROUPED.fullmatch(found):
        found = found.replace(",", "") if "," in found else found.replace(".", "")
    whole, _, rest = found.replace(",", ".").partition(".")
    digits = "".join(str(unicodedata.digit(c, 0)) for c in whole).lstrip("0") or "0"
    rest = "".join(str(unicodedata.digit(c, 0)) if c != "." else c for c in rest).rstrip("0")
    return f"{digits}.{rest}" if rest else digits


def stem(word: str) -> str:
    """Removes the English inflection of a lower-case word; words of other alphabets and short words are unchanged.

    Coarser than Porter's stemmer: different inflections in claim and fact (starred, stars) must become equal, and
    mistakes cost little, since both sides are treated alike.
    """
    if len(word) < 4 or not word.isascii():
        return word
    for ending, kept in (("ies", "i"), ("ied", "i"), ("ing", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + kept
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    if len(word) > 3 and word[-1] in "ey":
        return word[:-1] + ("i" if word[-1] == "y" else "")
    return word


DATES = frozenset(stem(name.casefold()) for name in f"{_MONTH_NAMES} {_DAY_NAMES}".split())
"""Stems of months and weekdays, which are names that no person or place competes with."""
