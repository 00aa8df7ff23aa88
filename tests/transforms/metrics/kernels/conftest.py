"""Pairs of texts that look for trouble: ten languages, characters that tokenizers disagree on, ties, empty lines."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

Pairs = list[tuple[str, str]]

LANGUAGES = (
    "the quick brown Foxes were running over U.S. lazy dogs, 3.14 times (in 1,000 days); isn't it? skies dying news",
    "l'élève a été très naïf à Noël : « ça va ? » œuvre garçon où",
    "東京は日本の首都です。人口は約１４００万人、世界最大の都市圏。",
    "北京是中国的首都，人口超过2000万。今天天气很好！",
    "Москва — столица России; население 13,1 млн. человек и ещё",
    "القاهرة هي عاصمة مصر، وعدد سكانها ١٠ ملايين؟",
    "İstanbul Türkiye'nin en kalabalık ili ışık ğ ş",
    "Hà Nội là thủ đô của Việt Nam, dân số 8 triệu người",
    "서울은 대한민국의 수도이다. 인구는 약 950만 명",
    "Straße Größe überhaupt die Fußgängerübergänge, z.B. 3,5 %",
    "กรุงเทพมหานคร เป็นเมืองหลวง ของประเทศไทย ๓ ล้าน",
    "नमस्ते दुनिया यह एक परीक्षण है ।",
)
ODD = (
    *"\u00a0\u2003\u0130\u212a\u0301\u200b\u200d\x1c\x85\x7f\x00\u2028\t\r\x0b\ufeff\u00ad½²Ⅷ①€$£+<>|~^`_\\/@#%*",
    *"\u2019\u201c\u2013…。，「」١٣๓\U0001f44d\U0001d7d8\U0001e6c0",
    *("<skipped>", "-\n", "&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "..", "...", ",,", ".,", "1,000.5", "5--6"),
    *(
        "a-1-b",
        "3-",
        ".5",
        "5.",
        "1..2",
        "1...2",
        "a..2",
        "a...2",
        "(1.)",
        "«1»",
        "١,٣",
        "x²",
        "\n\n",
        "\r\n",
        " \n ",
        "&",
    ),
)
RUNS = (*".,-!'0123456789ab ", "\n", "é", "。", "٣", "+")


def _language(rng: random.Random) -> str:
    words = rng.choice(LANGUAGES).split()
    return "".join(rng.choice(words) + rng.choice((" ", " ", " ", "\n", ", ", "")) for _ in range(rng.randrange(40)))


def _odd(rng: random.Random) -> str:
    words = rng.choice(LANGUAGES).split()
    return "".join(rng.choice((rng.choice(words), rng.choice(ODD), " ")) for _ in range(rng.randrange(30)))


def _runs(rng: random.Random) -> str:
    return "".join(rng.choice(RUNS) for _ in range(rng.randrange(25)))


def _ties(rng: random.Random) -> str:
    letters, breaks = rng.choice(("ab", "abc", "abcdef")), rng.choice((" ", "  \n", "    \n"))
    return "".join(rng.choice(letters) + rng.choice(breaks) for _ in range(rng.randrange(60)))


def _prose(rng: random.Random) -> str:
    words = [f"w{int(rng.paretovariate(0.7)) % 300}" for _ in range(rng.randrange(150))]
    return "".join(word + rng.choice((" ", " ", " ", " ", " ", " ", " ", "\n", " x. ")) for word in words)


def _long_line(rng: random.Random) -> str:
    words = [f"w{int(rng.paretovariate(0.8)) % 90}" for _ in range(rng.randrange(60, 400))]
    return " ".join(words) + rng.choice(("", "\n" + " ".join(rng.choices(words, k=50))))


def _empty(rng: random.Random) -> str:
    return rng.choice(("", " ", "\n", "\n\n", "...", "?!", "。", "\u00a0", "é", "a", "1", "."))


def _edited(text: str, rng: random.Random) -> str:
    lines = [line.split(" ") for line in text.split("\n")]
    for line in lines:
        for _ in range(len(line) // 4):
            line[rng.randrange(len(line))] = rng.choice(("the", "", "new", rng.choice(line), rng.choice(ODD)))
    if len(lines) > 1 and rng.random() < 0.5:
        lines.append(lines.pop(rng.randrange(len(lines))))
    return "\n".join(map(" ".join, lines))


KINDS = (_language, _odd, _runs, _ties, _ties, _prose, _empty)


def make_pairs(seed: int, count: int, long_share: float = 0.01) -> Pairs:
    """`count` pairs (response, reference), the same for the same seed."""
    rng = random.Random(seed)
    pairs: Pairs = []
    for _ in range(count):
        kind = _long_line if rng.random() < long_share else rng.choice(KINDS)
        reference = kind(rng)
        draw = rng.random()
        response = _edited(reference, rng) if draw < 0.5 else kind(rng) if draw < 0.9 else rng.choice(KINDS)(rng)
        pairs.append((response, reference) if rng.random() < 0.97 else (reference, reference))
    return pairs


@pytest.fixture(scope="session")
def fuzz_pairs() -> Callable[..., Pairs]:
    """`make_pairs`."""
    return make_pairs
