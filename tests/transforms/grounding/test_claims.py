"""Claims: byte positions in every script, and which sentences assert something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.sentences import split_sentences
from evalbeam.transforms.grounding.claims import asserts, split_claims

SCRIPTS = {
    "Latin": ["Zoë café naïve.", "L’été à 30 °C!"],
    "Greek": ["Η Αθήνα είναι πόλη.", "Έχει λιμάνι."],
    "Cyrillic": ["Москва — столица.", "Она большая!"],
    "Arabic": ["القاهرة عاصمة مصر.", "هي مدينة كبيرة."],
    "Hebrew": ["ירושלים היא עיר.", "היא עתיקה."],
    "Devanagari": ["दिल्ली राजधानी है।", "वह बड़ी है।"],
    "Thai": ["กรุงเทพเป็นเมืองหลวง.", "มันใหญ่มาก."],
    "Han": ["北京是首都。", "它很大！"],
    "Japanese": ["東京は首都です。", "とても大きいです。"],
    "Hangul": ["서울은 수도이다.", "크다."],
    "emoji": ["Rain 🌧️ fell 👩‍🚀.", "Then 🌈 came."],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_positions_are_bytes_of_utf8(script: str) -> None:
    sentences = SCRIPTS[script]
    answer = " \t" + "  ".join(sentences) + "\n"
    claims = split_claims(answer)
    assert [c.text for c in claims] == sentences
    data = answer.encode()
    assert [data[c.start : c.end].decode() for c in claims] == sentences


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_claims_lie_in_order_in_any_text_and_leave_out_only_spaces(answer: str) -> None:
    data, at, rest = answer.encode(), 0, b""
    for claim in split_claims(answer):
        assert data[claim.start : claim.end].decode() == claim.text == claim.text.strip() != ""
        rest += data[at : claim.start]
        at = claim.end
    assert not (rest + data[at:]).decode().strip()


@given(st.text())
def test_sentences_together_are_the_text(text: str) -> None:
    assert "".join(split_sentences(text)) == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


@pytest.mark.parametrize(
    "sentence",
    [
        *("Here is what I found.", "Here's the information you asked for:", "Here you go!", "Below is a summary."),
        *(
            "Hello!",
            "Thank you so much.",
            "You're welcome.",
            "I agree.",
            "haha",
            "Yes.",
            "Bonjour",
            "谢谢！",
            "🙂",
            "---",
        ),
        *("I hope this helps.", "Let me know if you need anything else.", "I can help you with that."),
        *("Who directed it?", "¿Quién la dirigió?", "誰が監督しましたか？", "من أخرجه؟", 'Did he say "no"?'),
        *("Great question!", "In summary:", "Really?!", "What a great idea!", "To summarize:", "Anything else?"),
        *("If you have any questions, feel free to contact me.", "Do you know what it is about?"),
        *("I'm sorry, but I don't know.", "I don't have any information about this.", "Voici ce que j'ai trouvé."),
    ],
)
def test_what_asserts_nothing(sentence: str) -> None:
    assert not asserts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        *(
            "Titanic was directed by James Cameron.",
            "It is great.",
            "Here is where Napoleon died.",
            "1997",
            "No, he left.",
        ),
        *(
            "Here are the 11 awards that I found.",
            "Yes, the movie has a spinning top.",
            "北京是首都。",
            "It can help you.",
        ),
        *("Here is what I found: the drug is safe for children.", "Hope this helps, the drug is safe for children."),
        *("Feel free to give the drug to infants.", "I can't find any risk in taking both drugs."),
        *("If you have chest pain, contact a doctor only after a week.", "- Whales lay eggs;\n- Whales are fish;"),
        *("Whales lay eggs;", "The drug is safe, right?", "Did you know that whales lay eggs?", "In short, it failed."),
        *("The drug is safe; is that clear?", "Paris is in Spain?", "Thanks! The drug is safe?"),
        *("I found that Titanic won.", "The answer is right there in Paris.", "Good wine comes from France."),
    ],
)
def test_what_asserts_something(sentence: str) -> None:
    assert asserts(sentence)


def test_generic_answers_of_begin_need_no_grounding(conformance: Path) -> None:
    lines = (conformance / "begin" / "begin_cmu_dev_50.jsonl").read_text().splitlines()
    answers = [row["answer_candidate"] for row in map(json.loads, lines) if row["label"] == "Generic"]
    assert len(answers) == 6
    assert not any(c.asserts for answer in answers for c in split_claims(answer))
