"""The lexical checker on 200 claims made to deceive it, written before it was changed (adversarial.jsonl).

Each class has as many true claims as false ones. The table of docs/how-to/grounding.md is this measurement. The 160
claims of adversarial_later.jsonl and the 221 of adversarial_third.jsonl were written after changes; the first
measurements on them stand on that page.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalbeam import check_grounding


def read_rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(__file__).parent / name).read_text().splitlines()]


ROWS = read_rows("adversarial.jsonl")
CLASSES = list(dict.fromkeys(row["class"] for row in ROWS))
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "grounding.md"


@pytest.fixture(scope="module")
def responses() -> list[dict[str, Any]]:
    spec = {"enableAntiCitations": True}
    requests = [
        {"answerCandidate": r["answer"], "facts": [{"factText": f} for f in r["facts"]], "groundingSpec": spec}
        for r in ROWS
    ]
    return [check_grounding(request) for request in requests]


def count_grounded(responses: list[dict[str, Any]], supported: bool) -> Counter[str]:
    """The number of claims with a score of at least 0.6 in each class."""
    pairs = [(r, s) for r, s in zip(ROWS, responses, strict=True) if r["supported"] == supported]
    return Counter(row["class"] for row, response in pairs if response["supportScore"] >= 0.6)


def count_rows(name: str, supported: bool) -> int:
    return sum(row["class"] == name and row["supported"] == supported for row in ROWS)


def test_there_are_200_claims_half_of_them_true_in_each_class() -> None:
    assert (len(ROWS), len(CLASSES)) == (200, 12)
    assert all(count_rows(name, True) == count_rows(name, False) >= 8 for name in CLASSES)


def test_no_class_of_false_claims_is_grounded_above_a_fifth(responses: list[dict[str, Any]]) -> None:
    grounded = count_grounded(responses, False)
    assert {name: grounded[name] / count_rows(name, False) for name in CLASSES if grounded[name]} == pytest.approx(
        {"role swap": 1 / 9}
    )


def test_balanced_accuracy_without_paraphrases(responses: list[dict[str, Any]]) -> None:
    names = [name for name in CLASSES if name != "paraphrase"]
    true, false = (
        sum(count_grounded(responses, supported)[name] for name in names)
        / sum(count_rows(name, supported) for name in names)
        for supported in (True, False)
    )
    assert (true + 1 - false) / 2 >= 0.95


def count_wrong(name: str) -> tuple[dict[bool, int], dict[bool, list[str]]]:
    """The number of rows, and the answers that are grounded if false or not grounded if true; by what is right."""
    rows, wrong = {True: 0, False: 0}, {True: list[str](), False: list[str]()}
    for row in read_rows(name):
        request = {"answerCandidate": row["answer"], "facts": [{"factText": fact} for fact in row["facts"]]}
        rows[row["supported"]] += 1
        if (check_grounding(request)["supportScore"] >= 0.6) != row["supported"]:
            wrong[row["supported"]].append(row["answer"])
    return rows, wrong


def test_claims_that_were_written_later() -> None:
    rows, wrong = count_wrong("adversarial_later.jsonl")
    assert rows == {True: 80, False: 80}
    assert (len(wrong[True]) <= 3, len(wrong[False]) <= 2) == (True, True)


def test_claims_of_the_third_set() -> None:
    """All but one of the false claims are told from true ones; a source ("According to critics, ...") is not seen."""
    rows, wrong = count_wrong("adversarial_third.jsonl")
    assert rows == {True: 93, False: 128}
    assert wrong[False] == ["The trial was too small."]
    assert len(wrong[True]) <= 4  # three are paraphrases


def test_true_claims_are_not_contradicted(responses: list[dict[str, Any]]) -> None:
    pairs = [(r, s) for r, s in zip(ROWS, responses, strict=True) if r["supported"]]
    assert [row["answer"] for row, response in pairs if response["contradictionScore"] >= 0.8] == []


def test_the_page_shows_these_figures(responses: list[dict[str, Any]]) -> None:
    true, false = (count_grounded(responses, supported) for supported in (True, False))
    for name in CLASSES:
        line = f"| {name} | {true[name]} of {count_rows(name, True)} | {false[name]} of {count_rows(name, False)} |"
        assert line in PAGE.read_text()
