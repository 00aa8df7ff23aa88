"""Claims: the sentences of an answer, their positions, and which of them assert something.

As in Vertex AI's Check Grounding, a claim is a sentence, and its position is in bytes of UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ...schemas.sentences import split_sentences
from .clauses import split_clauses

_TALK_WORDS = """
hi hello hey greetings bye goodbye thanks thank welcome please sorry cheers congratulations yes yeah yep yup no nope ok
okay sure fine great good cool nice wow oh ah aha hm hmm haha lol indeed exactly definitely absolutely certainly course
really interesting right agree agreed pleasure problem bonjour merci salut hola gracias hallo danke ciao grazie
olá obrigado obrigada привет спасибо здравствуйте 你好 谢谢 こんにちは ありがとう 안녕하세요 감사합니다
नमस्ते धन्यवाद مرحبا شكرا
"""
_TALK = frozenset(_TALK_WORDS.split())
"""Words of greetings, thanks, agreement and exclamations."""
_WORDS_BESIDE = """
i you we my your the a to and of so too very much for that this it's you're is are there all everyone again not morning
afternoon evening day question point idea job that's what an
"""
_BESIDE = frozenset(_WORDS_BESIDE.split())
"""Words that may accompany those above without making a statement."""
_HEADING_WORDS = """
in to the a and so for as by on my short summary brief conclusion general summarize conclude sum up example instance
note overall first second third finally lastly additionally furthermore moreover however therefore next answer details
sources references key points takeaways
"""
_HEADING = frozenset(_HEADING_WORDS.split())
"""Words of headings and transitions ("In summary:"); none is a verb that could make a statement of them."""
_SPEECH_WORDS = """
i i'm i've i'd i'll you you're you've you'd we my your me us it this that these those them here here's is are am was be
have has had do does not don't can can't could couldn't cannot will would should may might the a an some any all more
most few of for to in on about with at and or but so if what which whatever there following below above found find know
get give tell ask asked answer answers answering question questions help helps helped helpful assist assistance
information info details detail summary overview list options steps breakdown results result text document documents
passage passages article context conversation sources source topic request requested provided given based relevant
additional further other else anything something everything want wanted need needed like looking searched search let
feel free hesitate contact reach out hope happy glad sorry afraid unfortunately please enough clear useful brief quick
short detailed main key important let's go into much also now just thank thanks kind way able explain clarify
say said meant mean
"""
_SPEECH = frozenset(_SPEECH_WORDS.split())
"""Words of which a remark on the answer itself is made; any other word may say something about the world."""
_REMARK = re.compile(
    r"""(?:but\ |and\ |so\ |please\ |unfortunately\ )*(?:
    here(?:'s|\ is|\ are|\ you\ (?:go|are))|below\ (?:is|are)|the\ following\ (?:is|are)|i\ hope|hope\ (?:this|that|it)
    |i(?:'ve|\ have)?\ found\ (?:the\ following|this|these|some)|let\ me|feel\ free|don't\ hesitate|do\ not\ hesitate
    |if\ (?:you|there)|i(?:'m|\ am|'d|'ll|\ would|\ can|\ could|\ will)|i\ (?:do\ not|don't|cannot|can't|couldn't)
    |is\ there|would\ you|do\ you|can\ i|may\ i|could\ you|what\ else|anything\ else)\b.*""",
    re.VERBOSE,
)
"""How remarks on the answer begin: announcements, offers, and regrets that there is none."""
_FOREIGN_REMARK = re.compile(
    r"voici (?:ce que j'ai trouvé|la réponse|les résultats)|hier (?:ist|sind) (?:was ich gefunden habe|die antwort|die"
    r" ergebnisse)|aquí (?:está|tienes?|tiene) (?:lo que encontré|la respuesta|la información)"
)
_ASKING_WORDS = """
who whom whose what when where why how which is are was were am do does did can could will would shall should may might
has have had qui que quoi quel quelle quels quelles où quand comment pourquoi combien est-ce wer was wie wo wann warum
welche welcher welches ist sind hat haben kann möchten quién qué cuál dónde cuándo cómo por chi che cosa come dove quale
quanto quem como onde quando
"""
_ASKING = frozenset(_ASKING_WORDS.split())
"""First words of questions in languages that write spaces; "was the drug safe?" asks, "the drug was safe?" may tell."""
_TELLING = re.compile(
    r"(?:did|do|does) you know (?!wh|how|if)|who (?:knew|would have thought)\b|(?:is|are|was|were|do|does|did)n't\b"
)
"""Questions that tell: "Did you know that whales lay eggs?"."""
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_PART = re.compile(r"(?P<body>[^.!…:;?\n。！？؟।\u037e⁇‽—–]+)(?P<end>[.!…:;?\n。！？؟।\u037e⁇‽—–]*)")
"""A part of a sentence up to its marks. The Greek question mark is U+037E; the semicolon is none."""
_ASKED = frozenset("?？؟\u037e⁇‽")
_LAUGH = re.compile(r"(?:[ah]{,3}(?:ha){2,20}h?|lo+l)", re.IGNORECASE)


@dataclass(frozen=True)
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

    @cached_property
    def clauses(self) -> tuple[str, ...]:
        """The clauses of the sentence that assert something; at least one."""
        return tuple(c for c in split_clauses(self.text) if asserts(c)) or (self.text,)


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

    It does unless each of its parts is a question, a greeting, thanks, agreement, laughter, a heading, an announcement
    ("Here is what I found."), an offer or a regret. In doubt a sentence asserts something.
    """
    if not _WORD.search(sentence):
        return any(c.isdigit() for c in sentence)
    return any(_part_asserts(m["body"], m["end"]) for m in _PART.finditer(sentence.replace("’", "'")))


def _part_asserts(body: str, end: str) -> bool:
    pieces = [piece for piece in re.split("[,，、]", body) if piece.strip()]
    if not _ASKED.isdisjoint(end):
        while pieces and not _piece_asserts(pieces[0]):
            pieces.pop(0)
        return bool(pieces) and not _is_question(",".join(pieces))
    return _piece_asserts(body.replace(",", " ")) and any(map(_piece_asserts, pieces))


def _piece_asserts(piece: str) -> bool:
    words = [w.casefold() for w in _WORD.findall(piece)]
    if not words or any(c.isdigit() for c in piece):
        return any(c.isalnum() for c in piece)
    talk = [w in _TALK or _LAUGH.fullmatch(w) is not None for w in words]
    if any(talk) and all(is_talk or w in _BESIDE for w, is_talk in zip(words, talk, strict=True)):
        return False
    if all(w in _HEADING for w in words):
        return False
    text = " ".join(words)
    remark = _REMARK.fullmatch(text) and all(w in _SPEECH for w in words)
    return not (remark or _FOREIGN_REMARK.fullmatch(text))


def _is_question(text: str) -> bool:
    """Returns true if a text before a question mark asks, rather than tells and asks for agreement."""
    words = _WORD.findall(text.casefold())
    if not words or _TELLING.match(" ".join(words)):
        return not words
    spaced = words[0][0] < "\u0370"  # the alphabets of the words above; elsewhere the mark alone decides
    return not spaced or words[0] in _ASKING or text.lstrip()[0] == "¿"
