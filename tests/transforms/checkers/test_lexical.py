"""The lexical checker, on published labels, on claims made wrong, and on the API's own examples."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.transforms.checkers.base import Verdict
from evalbeam.transforms.checkers.lexical import Lexical
from evalbeam.transforms.grounding.check import Outcome, Spec, check_claims, drive
from evalbeam.transforms.grounding.claims import Claim, split_claims
from evalbeam.transforms.grounding.passages import Fact, Text, cut_passages
from evalbeam.transforms.grounding.request import read_request
from evalbeam.transforms.grounding.search import Index

from .swaps import swaps

SEED = json.loads((Path(__file__).parent.parent / "grounding" / "seed.json").read_text())
DIRECTED = "Titanic was directed by James Cameron."


def weighed(claim: str, *facts: str) -> Verdict:
    """The support and the contradiction of an answer by facts."""
    check = check_claims(split_claims(claim), Index(cut_passages([Fact(fact) for fact in facts])), Spec())
    (outcome,) = drive([check], Lexical().weigh)
    assert isinstance(outcome, Outcome)
    return Verdict(outcome.support or 0.0, outcome.contradiction)


def supports(rows: list[tuple[list[Claim], str]]) -> list[Outcome]:
    checks = [check_claims(claims, Index(cut_passages([Fact(fact)])), Spec()) for claims, fact in rows]
    return [o for o in drive(checks, Lexical().weigh) if isinstance(o, Outcome)]


@pytest.fixture
def begin(conformance: Path) -> list[dict[str, Any]]:
    """Rows of BEGIN that are not Generic."""
    lines = (conformance / "begin" / "begin_cmu_dev_50.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["label"] != "Generic"]


def auc(scores: list[float], labels: list[bool]) -> float:
    """Share of pairs of a right and a wrong answer in which the right one scores higher; ties count half."""
    right = [s for s, label in zip(scores, labels, strict=True) if label]
    wrong = [s for s, label in zip(scores, labels, strict=True) if not label]
    return sum((a > b) + (a == b) / 2 for a in right for b in wrong) / len(right) / len(wrong)


def test_it_tells_attributable_answers_from_others_better_than_rouge(begin: list[dict[str, Any]]) -> None:
    """On the answers with a claim; the others have no score."""
    from rouge_score.rouge_scorer import RougeScorer

    found = supports([(split_claims(row["answer_candidate"]), row["facts"][0]) for row in begin])
    rows = [(row, o.support) for row, o in zip(begin, found, strict=True) if o.support is not None]
    labels = [row["label"] == "Fully attributable" for row, _ in rows]
    assert (len(begin), len(labels), sum(labels)) == (44, 39, 9)
    rouge = RougeScorer(["rougeL"])
    precisions = [rouge.score(row["facts"][0], row["answer_candidate"])["rougeL"].precision for row, _ in rows]
    assert auc(precisions, labels) == pytest.approx(0.941, abs=0.001)
    assert auc([support for _, support in rows], labels) >= auc(precisions, labels) + 0.02


def test_swapped_numbers_dates_names_and_negations_are_flagged(begin: list[dict[str, Any]]) -> None:
    made = swaps(list(dict.fromkeys(row["facts"][0] for row in begin)), 15)
    assert Counter(s.kind for s in made) == {"number": 15, "date": 15, "name": 15, "negation": 15}
    right = supports([([Claim(s.right, 0, 0, True)], s.passage) for s in made])
    wrong = supports([([Claim(s.wrong, 0, 0, True)], s.passage) for s in made])
    assert all((o.support or 0) >= 0.6 and o.contradiction < 0.8 for o in right)
    assert all((o.support or 0) < 0.6 for o in wrong)
    assert sum(o.contradiction >= 0.8 for o in wrong) >= 58


@pytest.mark.parametrize(
    ("answer", "support", "contradiction"),
    [
        (f"Here is what I found. {DIRECTED}", 0.99, None),
        (f"{DIRECTED} It was released in 1997.", 0.99, None),
        (
            f"{DIRECTED} It was based on the sinking of the RMS Titanic that led to the death of 1500 people.",
            0.95,
            None,
        ),
        (f"{DIRECTED} It starred Brad Pitt and Kate Winslet", 0.54, 0.49),
        (f"Here is what I found. {DIRECTED} It starred Kate Winslet and Leonardo DiCaprio.", 0.99, None),
    ],
)
def test_the_apis_examples_are_scored_nearly_as_the_service_scores_them(
    answer: str, support: float, contradiction: float | None
) -> None:
    asked = {"enableAntiCitations": True, "enableClaimLevelScore": True}
    request = read_request({"answerCandidate": answer, "facts": SEED["facts"], "groundingSpec": asked})
    (response,) = Lexical().check([request])
    assert isinstance(response, dict)
    assert response["supportScore"] == pytest.approx(support, abs=0.1)
    assert response["contradictionScore"] == pytest.approx(contradiction or 0.0, abs=0.1)
    grounded = [bool(c["citationIndices"]) for c in response["claims"] if c["groundingCheckRequired"]]
    assert grounded == ([True, False] if contradiction else [True] * len(grounded))
    assert [bool(c["antiCitationIndices"]) for c in response["claims"]][-1] == bool(contradiction)


def test_attributes_are_evidence_and_what_they_do_not_say_is_less_grounded() -> None:
    fact = {"factText": "Toronto is the capital of Ontario", "attributes": {"author": "Wikipedia"}}
    claim = "Toronto is the capital of Ontario"
    answers = [claim, f"Wikipedia cites that {claim}", f"Government of Ontario claims that {claim}"]
    requests = [read_request({"answerCandidate": a, "facts": [fact]}) for a in answers]
    scores = [r["supportScore"] for r in Lexical().check(requests) if isinstance(r, dict)]
    assert scores[0] >= scores[1] >= 0.6 > scores[2]


@pytest.mark.parametrize(
    ("claim", "fact"),
    [
        (
            "Google was founded by Larry Page and Sergey Brin in 1975.",
            "Larry Page and Sergey Brin founded Google in 1998.",
        ),
        ("Anna wrote the report in May.", "Anna wrote the report in June."),
        ("The bridge was not closed.", "The bridge was closed."),
        ("The bridge was closed.", "The bridge was never closed."),
        ("Ottawa is the capital of Ontario.", "Toronto is the capital of Ontario."),
        ("The tower is 330 metres tall.", "The tower is 324 metres tall."),
        ("Der Turm wurde 1889 eröffnet.", "Der Turm wurde 1887 eröffnet."),
        ("Башня не открыта.", "Башня открыта."),
    ],
)
def test_one_wrong_detail_makes_a_claim_ungrounded_and_contradicted(claim: str, fact: str) -> None:
    verdict = weighed(claim, fact)
    assert verdict.entailed < 0.6
    assert verdict.contradicted >= 0.8
    assert weighed(fact, fact) == Verdict(1.0, 0.0)


@pytest.mark.parametrize(
    ("claim", "fact"),
    [
        ("The movie won eleven Academy Awards.", "It won 11 Academy Awards. The movie was long."),
        ("It opened on 1997-12-19.", "It opened on December 19, 1997."),
        ("1500 people died.", "There 1,500 people died."),
        ("No, but it won an award.", "It won an award."),
        ("THE TOWER IS TALL.", "The tower is tall."),
    ],
)
def test_the_same_said_otherwise_is_grounded(claim: str, fact: str) -> None:
    verdict = weighed(claim, fact)
    assert verdict.entailed >= 0.6
    assert verdict.contradicted < 0.8


NOBEL = "Marie Curie shared the Nobel Prize in Physics in 1903. In 1911 she won the Nobel Prize in Chemistry alone."
TRAIN = "The train leaves Bern at 07:02 and arrives in Zurich at 08:05."


@pytest.mark.parametrize(
    ("claim", "fact", "grounded"),
    [
        ("Marie Curie won the Nobel Prize in Chemistry in 1911.", NOBEL, True),
        ("Marie Curie won the Nobel Prize in Chemistry in 1903.", NOBEL, False),
        ("The train leaves Bern at 07:02.", TRAIN, True),
        ("The train leaves Bern at 08:05.", TRAIN, False),
        ("The train leaves Zurich at 08:05.", TRAIN, False),
        ("The museum is open daily and entry is free.", "The museum is open daily.", False),
        ("- Whales lay eggs;\n- Whales are fish;", "Whales are mammals.", False),
        ("Here is what I found: the drug is safe for children.", "The drug is safe for adults.", False),
    ],
)
def test_what_only_looks_alike_is_not_grounded_and_what_is_true_is_not_contradicted(
    claim: str, fact: str, grounded: bool
) -> None:
    verdict = weighed(claim, fact)
    assert (verdict.entailed >= 0.6) == grounded
    assert verdict.contradicted < 0.8 or not grounded


def test_a_fact_of_something_else_contradicts_nothing_that_another_fact_supports() -> None:
    facts = ["The train leaves Bern at 07:02.", "The train leaves Bern at 09:02."]
    assert weighed(facts[0], *facts) == Verdict(1.0, 0.0)


FACTS = [NOBEL, TRAIN, "The museum is open daily. Entry is free.", "Curie lived in Paris, the capital of France."]
CLAIMS = ["Curie won in 1911 and lived in Paris.", "The museum in Paris is free.", "The train leaves at 08:05.", NOBEL]


@given(st.lists(st.sampled_from(FACTS), min_size=1), st.sampled_from(CLAIMS), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_threshold_never_cites_more(facts: list[str], claim: str, a: float, b: float) -> None:
    index, claims = Index(cut_passages([Fact(fact) for fact in facts])), split_claims(claim)
    checks = [check_claims(claims, index, Spec(t)) for t in sorted((a, b))]
    low, high = (o for o in drive(checks, Lexical().weigh) if isinstance(o, Outcome))
    for loose, strict in zip(low.claims, high.claims, strict=True):
        assert {p.place for p in strict.cited} <= {p.place for p in loose.cited}


def test_words_cannot_ground_a_claim_that_has_only_function_words() -> None:
    assert weighed("Yes, he is.", "Yes, he is a judge.") == Verdict(0.0, 0.0)
    assert weighed("...", "...") == Verdict(0.0, 0.0)


TEXTS = st.lists(st.sampled_from("Anna wrote no report in May 1997 or not the 3 books".split()), max_size=12)  # noqa: SIM905


@given(TEXTS.map(" ".join), st.lists(TEXTS.map(" ".join), min_size=1, max_size=3))
def test_verdicts_lie_in_their_bounds(claim: str, sentences: list[str]) -> None:
    verdict = Lexical().weigh([(Text([claim]), Text(sentences))])[0]
    assert 0 <= verdict.entailed <= 1
    assert 0 <= verdict.contradicted <= 1
