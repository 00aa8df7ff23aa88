"""Words: stems, kinds, numbers and dates."""

from __future__ import annotations

import pytest

from evalbeam.transforms.grounding.words import split_words, stem


def stems(text: str) -> list[str]:
    return [w.stem for w in split_words(text)]


@pytest.mark.parametrize(
    "forms",
    [
        *(["starred", "stars", "starring", "star"], ["release", "released", "releases", "releasing"]),
        *(["party", "parties"], ["movie", "movies"], ["box", "boxes"], ["die", "dies"], ["plan", "planned"]),
    ],
)
def test_inflections_share_a_stem(forms: list[str]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("pair", [("this", "thing"), ("cross", "cro"), ("king", "k"), ("red", "r"), ("class", "clas")])
def test_short_words_and_double_s_stay(pair: tuple[str, str]) -> None:
    assert stem(pair[0]) != pair[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,500", ["1500"]),
        ("1.500.000", ["1500000"]),
        ("3.50", ["3.5"]),
        ("007", ["7"]),
        ("٣٫٥ ١٩٩٧", ["3", "5", "1997"]),
        ("eleven", ["11"]),
        ("8.6/10", ["8.6", "10"]),
        ("1997-12-19", ["december", "19", "1997"]),
        ("92%", ["92", "percent"]),
        ("$15.50", ["15.5", "dollar"]),
        ("0", ["0"]),
        ("²", ["2"]),
        ("½", ["½"]),
    ],
)
def test_numbers_are_compared_by_value(text: str, expected: list[str]) -> None:
    assert stems(text) == expected


def test_a_date_in_iso_form_is_the_date_in_words() -> None:
    assert set(stems("released 1997-12-19")) == set(stems("Released on December 19, 1997")) - {"on"}


@pytest.mark.parametrize("text", ["it wasn't", "it is n't", "it isn’t", "never", "nicht", "不", "нет", "no", "cannot"])
def test_negations_are_one_word(text: str) -> None:
    assert "not" in stems(text)


def test_names_are_capitalised_and_function_words_weigh_little() -> None:
    found = {w.stem: (w.kind, w.weight) for w in split_words("The House of Falcone's son I met")}
    assert found["the"] == ("function", 0.25)
    assert found["falcon"] == ("name", 1.0)
    assert [kind for kind, _ in found.values()] == ["function", "name", "function", "name", "plain", "plain", "plain"]


def test_scripts_without_spaces_are_cut_into_characters_and_marks_stay_with_their_letters() -> None:
    assert stems("北京是首都") == list("北京是首都")
    assert stems("हिन्दी किताब") == ["हिन्दी", "किताब"]
    assert stems("เมือง") == ["เ", "มื", "อ", "ง"]
