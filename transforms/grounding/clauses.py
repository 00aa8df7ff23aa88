"""Splits sentences into clauses, each with the words that it shares with the others.

"The train leaves Bern at 07:02 and arrives in Zurich at 08:05" is two clauses, "The train leaves Bern at 07:02" and
"The train arrives in Zurich at 08:05". A claim is grounded only if each of its clauses is, and a fact speaks for a
clause only by one of its own, so that what it says of the departure is not taken for the arrival.

There is no grammar behind this: where a clause begins is guessed from conjunctions, and what it shares with the one
before from the word that its first word is parallel to. Claims and facts are split alike, so most mistakes cancel out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_VERB_WORDS = """
is are was were has have had can could will would should must may might does do did isn't aren't wasn't weren't hasn't
haven't hadn't can't couldn't won't wouldn't shouldn't mustn't doesn't don't didn't ist sind war waren wurde wurden wird
hat haben est sont était été es son fue era está è sono
"""
_VERBS = frozenset(_VERB_WORDS.split())
"""Finite forms of auxiliaries: the only verbs that are known as such."""
_PREPOSITION_WORDS = """
in on at to by for from of with during after before since until over under
im am auf aus bei mit nach von vom zu zum zur seit für de du des à au aux en dans par pour avec del al con por para
di della a da per
"""
_PREPOSITIONS = frozenset(_PREPOSITION_WORDS.split())
_ARTICLE_WORDS = "the a an its their his her der die das den dem des ein eine einen le la les un une el los las il"
_ARTICLES = frozenset(_ARTICLE_WORDS.split())
_PRONOUNS = frozenset(["he", "she", "it", "they", "we", "you", "i", "there", "es", "sie", "er", "il", "elle", "ils"])
_NEGATIONS = frozenset(["not", "never", "nicht", "nie", "pas"])
_ENCLOSED = re.compile(
    r"^(?P<head>[^,;]+), (?P<kind>(?:who|which|where|die|der|das|qui|que|the|a|an) )"
    r"(?P<inner>[^,;]+), (?P<rest>.+)$"
)
"""A relative clause or an apposition between two commas."""
_TRAILING = re.compile(r"^(?P<head>.+?),? (?P<kind>who|which|that) (?P<inner>(?:\w+ed|\w+s|led|was|were|had) .+)$")
"""A relative clause at the end."""
_OPENING = re.compile(
    r"\s*(?:(?:(?:yes|yeah|yep|yup|oh|well|right|ok|okay|sure|true|exactly|definitely|absolutely|indeed|actually)\b"
    r"|no\b(?=\s*[,.!]|\s+but\b)|(?:but|and|so)\b)[\s,.!]*)+",
    re.IGNORECASE,
)
"""Words at the start of a sentence that address the other speaker and assert nothing."""
_HARD_BOUNDARY = re.compile(r"[;；\n]+[\s*•-]*")
"""Where a clause ends that shares nothing with the next: at semicolons and lines."""
_BOUNDARY = re.compile(
    r"\s*，|,?\s+(?:and|but|while|whereas|although|und|aber|et|mais|y|pero|и|но)\s+(?!(?:by|of) )"
    r"|,\s+(?=not\s)|,\s+(?=(?:[^\s,]+\s+){0,3}[^\s,]+,?\s+(?:and|or|und|et|y|и)\s)"
)
"""Where other clauses end: at conjunctions, and at the commas of a list that ends in a conjunction."""
_JOINT = re.compile("[,，]| (?:and|but|wh|al|that|und|aber|et|mais|y|pero|и|но)")
"""What a sentence of several clauses has at least; most have none, and need not be searched for more."""
_STRIPPED = ".,:()[]\"'“”«»"
_LONGEST_SUBJECT = 4
"""Maximum words of the first of two subjects that share what follows ("Peru and Chile export copper")."""
_WEAK = 3
"""Score of a part that has no more in common with the whole clause before than an article."""
_MOST = 12
"""Clauses of a sentence beyond which it is a list without structure, and stays whole."""


def split_clauses(sentence: str) -> list[str]:
    """Splits a sentence into clauses; one that has no parts is returned alone.

    Each clause is a text of its own, with the words that it shares with its neighbours repeated, and without the words
    at the start that assert nothing ("Yes, but ...").
    """
    opening = _OPENING.match(sentence)
    rest = sentence[opening.end() :] if opening else sentence
    lines = [line for line in _HARD_BOUNDARY.split(rest) if line.strip()]
    return (
        [clause for line in lines for clause in _split_line(line)] if len(lines) > 1 else _split_line(rest or sentence)
    )


def _split_line(line: str) -> list[str]:
    if not _JOINT.search(line):
        return [line]
    if (enclosed := _ENCLOSED.match(line)) and not _has_verb(enclosed["head"].split()):
        verb = f"is {enclosed['kind']}" if enclosed["kind"].strip() in _ARTICLES else ""
        parts = (f"{enclosed['head']} {enclosed['rest']}", f"{enclosed['head']} {verb}{enclosed['inner']}")
        return [clause for part in parts for clause in _split_line(part)]
    trailing = _TRAILING.match(line) if " wh" in line or " that" in line else None
    if trailing and _has_verb(trailing["head"].split()):
        antecedent = " ".join(trailing["head"].split()[-2:])
        return [*_split_line(trailing["head"]), *_split_line(f"{antecedent} {trailing['inner']}")]
    parts = [part.split() for part in _BOUNDARY.split(line) if part.strip()]
    return [" ".join(words) for words in _share_words(parts)] if 1 < len(parts) <= _MOST else [line]


def _share_words(parts: Sequence[list[str]]) -> list[list[str]]:
    """Returns the parts as clauses, each with the words that it shares with those before or after it."""
    subjects = 0
    while subjects + 1 < len(parts) and _is_subject(parts[subjects], parts[subjects + 1]):
        subjects += 1
    first = parts[subjects]
    clauses = [[*subject, *first[len(subject) :]] for subject in parts[:subjects]] + [first]
    starts: list[int] = []
    for part in parts[subjects + 1 :]:
        starts.append(_find_parallel(clauses[-1], part))
        clauses.append([*clauses[-1][: starts[-1]], *part])
    for i, at in enumerate(starts, subjects):
        if at:
            clauses[i] = [*clauses[i], *_find_shared_end(clauses[i][at:], parts[-1])]
    return clauses


def _find_shared_end(own: Sequence[str], last: Sequence[str]) -> Sequence[str]:
    """Returns what the last part has beyond its counterpart of `own`, if it is an adjunct of both.

    In "by Larry Page and Sergey Brin in 1998" the year belongs to both names.
    """
    rest = last[len(own) :]
    alike = [_shape(w) for w in own] == [_shape(w) for w in last[: len(own)]]
    adjunct = bool(rest) and rest[0].casefold() in _PREPOSITIONS and not _has_verb(last)
    return rest if alike and adjunct and not any(w.casefold() in _PREPOSITIONS for w in own) else ()


def _is_subject(part: Sequence[str], following: Sequence[str]) -> bool:
    """Returns true for a subject that shares the predicate of the next part: it is short and has no verb itself."""
    alike = len(following) > len(part) and [_shape(w) for w in part] == [_shape(w) for w in following[: len(part)]]
    return len(part) <= _LONGEST_SUBJECT and alike and not _has_verb(part)


def _find_parallel(whole: Sequence[str], part: Sequence[str]) -> int:
    """Returns the index in the clause before from which a part replaces it; the words before it are shared.

    It is 0 if the part has a subject and a verb of its own: a known verb, that of the clause before, or a word after a
    name that is no preposition.
    """
    rest = part[1:] if len(part) > 1 and _fold(part[0]) in _NEGATIONS else part
    first = _fold(rest[0])
    if first in _PRONOUNS or (first not in _VERBS and _has_verb(rest[1:])):
        return 0
    if first in _VERBS:
        return _find_predicate(whole)
    if _repeats_predicate(whole, rest) or _is_name_with_verb(rest):
        return 0
    if len(rest) == 1 and _shape(rest[0]) == "word":
        return _find_last_noun(whole)
    scores = [_score_parallel(whole, i, rest) for i in range(len(whole))]
    scores[0] = max(scores[0], _score_parallel([whole[0].casefold(), *whole[1:]], 0, rest))  # it may be no name
    best = max(range(len(whole)), key=lambda i: (scores[i], i))
    if scores[best] and (best or scores[best] > _WEAK):
        return best
    if (len(rest) <= 2 and not first.endswith("ly")) or (len(rest) == 3 and _shape(rest[0]) == "article"):
        return _find_last_noun(whole)
    at = _find_predicate(whole)
    shares_verb = _fold(whole[at]) in _VERBS and ("by" in rest or not first.endswith(("ed", "s")))
    return at + shares_verb


def _repeats_predicate(whole: Sequence[str], part: Sequence[str]) -> bool:
    predicate = whole[_find_predicate(whole)]
    return _shape(predicate) == "word" and _fold(predicate) in map(_fold, part[1:])


def _is_name_with_verb(part: Sequence[str]) -> bool:
    names = next((i for i, word in enumerate(part) if _shape(word) != "name"), len(part))
    following = part[names:]
    return names > 0 and len(following) > 1 and _shape(following[0]) == "word" and _is_open(following[0])


def _is_open(word: str) -> bool:
    """Returns true for a word that is no preposition and no mark."""
    return _fold(word) not in _PREPOSITIONS and word[:1].isalpha()


def _score_parallel(words: Sequence[str], start: int, part: Sequence[str]) -> int:
    """Scores how far the words from an index on have the form of a part; 0 if the first ones differ."""
    if not _score_alike(words[start], part[0]):
        return 0
    return 2 * sum(map(_score_alike, words[start : start + len(part)], part)) + (len(words) - start >= len(part))


@lru_cache(maxsize=65_536)
def _score_alike(a: str, b: str) -> int:
    shape = _shape(a)
    a, b, alike = _fold(a), _fold(b), shape == _shape(b)
    if a == b:
        return 3
    if alike and shape != "word":
        return 1 if shape == "article" else 2
    return int(alike and (a[-2:] == b[-2:] or a[-1:] == b[-1:] == "s"))


def _find_predicate(words: Sequence[str]) -> int:
    """Returns the index of the first auxiliary, else of the word after the subject."""
    verbs = [i for i, word in enumerate(words) if _fold(word) in _VERBS]
    if verbs:
        return verbs[0]
    at = 1 + (_shape(words[0]) == "article")
    while at < len(words) and _shape(words[at]) == "name" == _shape(words[at - 1]):
        at += 1
    return min(at, len(words) - 1)


def _find_last_noun(words: Sequence[str]) -> int:
    """Returns the index of the last word, or of the article or number a little before it, which begins the noun."""
    near = range(max(len(words) - _LONGEST_SUBJECT, 1), len(words) - 1)
    return next((i for i in reversed(near) if _shape(words[i]) in ("article", "number")), len(words) - 1)


def _has_verb(words: Sequence[str]) -> bool:
    return any(_fold(word) in _VERBS for word in words)


@lru_cache(maxsize=65_536)
def _fold(word: str) -> str:
    return word.strip(_STRIPPED).casefold()


@lru_cache(maxsize=65_536)
def _shape(word: str) -> str:
    word = word.strip(_STRIPPED)
    if word[:1].isdigit():
        return "number"
    if word.casefold() in _ARTICLES:
        return "article"
    return "name" if word[:1].isupper() else "word"
