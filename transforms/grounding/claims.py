"""Claims: the sentences of an answer, their positions, and which of them assert something.

As in Vertex AI's Check Grounding, a claim is a sentence, and its position is in bytes of UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .passages import split_sentences

_TALK_WORDS = """
hi hello hey greetings bye goodbye thanks thank welcome please sorry cheers congratulations yes yeah yep yup no nope ok
okay sure fine great good cool nice wow oh ah aha hm hmm haha lol indeed exactly definitely absolutely certainly course
right agree agreed pleasure problem bonjour merci salut hola gracias hallo danke ciao grazie olá obrigado obrigada
привет спасибо здравствуйте 你好 谢谢 こんにちは ありがとう 안녕하세요 감사합니다 नमस्ते धन्यवाद مرحبا شكرا
"""
_TALK = frozenset(_TALK_WORDS.split())
"""Words of greetings, thanks, agreement and exclamations."""
_WORDS_BESIDE = """
i you we my your the a to and of so too very much for that this it's you're is are there all everyone again not morning
afternoon evening day
"""
_BESIDE = frozenset(_WORDS_BESIDE.split())
"""Words that may accompany those above without making a statement."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_QUESTION = re.compile(r"""[?？؟;⁇‽]["'”’»)\]\s]*$""")
_LAUGH = re.compile(r"(?:[ah]{,3}(?:ha){2,20}h?|lo+l)", re.IGNORECASE)
_ABOUT_THE_ANSWER = re.compile(
    r"""(?:(?:sure|certainly|of\ course|okay?|great|absolutely)[,!.\s]+)?(?:
    (?:here(?:'s|’s|\ is|\ are)|below\ (?:is|are)|the\ following\ (?:is|are))\b.*
        \b(?:found|find|know|results?|answers?|information|info|details|summary|overview|list|options|steps|breakdown)\b.*
    |here\ you\ (?:go|are)\b.*
    |i(?:'ve|’ve|\ have)?\ found\ (?:the\ following|this|these|some)\b.*
    |(?:i\ )?hope\ (?:this|that|it)\ (?:helps|is\ helpful|answers)\b.*
    |(?:please\ )?(?:let\ me\ know|feel\ free|do\ not\ hesitate|don['’]t\ hesitate)\b.*
    |if\ you\ (?:have|need|want|would\ like|'d\ like)\b.*\b(?:let\ me\ know|ask|tell\ me|help|contact|reach\ out)\b.*
    |i(?:'m|’m|\ am|\ would\ be|'d\ be|\ can|\ could|'ll|\ will)\ (?:\w+\ ){0,2}(?:help|assist)\b.*
    |(?:i(?:'m|’m|\ am)\ (?:sorry|afraid)[,\s]+(?:but\ )?)?i\ (?:do\ not|don['’]t|cannot|can['’]t|couldn['’]t)
        \ (?:know|answer|help|assist|find|have\ (?:any\ |enough\ |that\ )?information)\b.*
    |voici\ (?:ce\ que|les?|la|des|un|une)\b.*|aquí\ (?:está|están|tienes?|tiene)\b.*
    |hier\ (?:ist|sind)\ (?:was|die|das|der)\b.*
    )$""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""Sentences about the conversation: announcements of an answer, offers, and regrets that there is none."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer.

    Attributes:
        text: The sentence, without surrounding spaces.
        start: Index of its first byte in the answer's UTF-8.
        end: Index after its last byte.
        asserts: True if it says something about the world, so that it needs grounding.
    """

    text: str
    start: int
    end: int
    asserts: bool


def split_claims(answer: str, language: str = "en") -> list[Claim]:
    """Splits an answer into claims.

    Args:
        answer: Any text without lone surrogates.
        language: Code of the language whose abbreviations do not end sentences.
    """
    found: list[Claim] = []
    at = 0
    for sentence in split_sentences(answer, language):
        text = sentence.strip()
        if text:
            start = at + len(sentence[: sentence.index(text)].encode())
            found.append(Claim(text, start, start + len(text.encode()), asserts(text)))
        at += len(sentence.encode())
    return found


def asserts(sentence: str) -> bool:
    """Returns true if a sentence says something about the world.

    Questions, greetings, thanks, agreement, laughter, announcements ("Here is what I found."), offers and regrets do
    not. In doubt a sentence asserts something: one with a digit or a name always does, unless it is a question.
    """
    words = _WORD.findall(sentence)
    if not words:
        return any(c.isdigit() for c in sentence)
    if _QUESTION.search(sentence):
        return False
    folded = [w.casefold().replace("’", "'") for w in words]
    talk = [w in _TALK or _LAUGH.fullmatch(w) is not None for w in folded]
    if any(talk) and all(is_talk or w in _BESIDE for w, is_talk in zip(folded, talk, strict=True)):
        return False
    named = any(c.isdigit() for c in sentence) or any(w[0].isupper() and w[0] != "I" for w in words[1:])
    return named or not _ABOUT_THE_ANSWER.match(sentence)
