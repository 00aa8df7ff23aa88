"""The course of a check: which pairs are asked for, what is cited, and how scores are made; a fake checker weighs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.errors import RowError
from evalbeam.transforms.grounding.check import Outcome, Pair, Spec, Verdict, check_claims, drive
from evalbeam.transforms.grounding.claims import Claim
from evalbeam.transforms.grounding.passages import Fact, Passage, Text, cut_passages

FACTS = ("One fell.", "Two rose.", "Three ran.", "Four sat.")
PASSAGES = cut_passages([Fact(text, {}, str(i)) for i, text in enumerate(FACTS)])
SHARE = st.floats(0, 1)


class Fixed:
    """A source that finds the same passages for every claim."""

    def __init__(self, passages: list[Passage]) -> None:
        self.passages = passages

    def search(self, claims: list[Text], most: int) -> list[list[Passage]]:
        return [self.passages[:most] for _ in claims]


def checked(table: dict[str, tuple[float, float]], spec: Spec | None = None) -> tuple[Outcome, list[str]]:
    """The outcome where texts get these verdicts ("1 2": passages 1 and 2 joined), else 0; and what was asked for."""
    asked: list[str] = []
    numbers = {text: str(i) for i, text in enumerate(FACTS, 1)}

    def weigh(pairs: list[Pair]) -> list[Verdict]:
        named = [" ".join(numbers[line] for line in premise.text.strip().split("\n")) for _, premise in pairs]
        asked.extend(named)
        return [Verdict(*table.get(name, (0.0, 0.0))) for name in named]

    claims = [Claim("A claim.", 0, 0, True)]
    (outcome,) = drive([check_claims(claims, Fixed(PASSAGES), spec or Spec())], weigh)
    assert isinstance(outcome, Outcome)
    return outcome, asked


def cited(outcome: Outcome) -> list[str]:
    return [p.fact.source for p in outcome.claims[0].cited]


def test_passages_that_suffice_are_cited_and_others_if_a_better_text_needs_them() -> None:
    table = {"1": (0.2, 0), "3": (0.7, 0), "4": (0.6, 0), "1 3 4": (0.8, 0), "3 4": (0.8, 0)}
    outcome, asked = checked(table)
    assert (cited(outcome), outcome.support) == (["2", "3"], 0.8)
    assert asked == ["1", "2", "3", "4", "1 3 4", "3 4", "1 3", "1 4"]
    assert cited(checked(table | {"1 3 4": (0.9, 0)})[0]) == ["0", "2", "3"]
    assert cited(checked(table | {"1 3 4": (0.7, 0)})[0]) == ["2", "3"]


def test_two_passages_that_suffice_together_are_cited_where_none_does_alone() -> None:
    table = {"1": (0.3, 0), "2": (0.2, 0), "4": (0.4, 0), "1 2 4": (0.9, 0), "1 4": (0.5, 0), "2 4": (0.9, 0)}
    outcome, asked = checked(table)
    assert (cited(outcome), outcome.support) == (["1", "3"], 0.9)
    assert asked[4:] == ["1 2 4", "1 4", "2 4", "1 2"]


def test_all_three_are_cited_where_no_two_suffice_and_none_where_even_three_do_not() -> None:
    table = {"1": (0.3, 0), "2": (0.2, 0), "4": (0.4, 0), "1 2 4": (0.9, 0)}
    assert cited(checked(table)[0]) == ["0", "1", "3"]
    assert cited(checked(table | {"1 2 4": (0.5, 0)})[0]) == []


def test_of_two_passages_both_are_cited_together() -> None:
    outcome, asked = checked({"1": (0.3, 0), "2": (0.2, 0), "1 2": (0.9, 0)})
    assert (cited(outcome), asked[4:]) == (["0", "1"], ["1 2"])


def test_a_certain_claim_is_not_asked_for_again() -> None:
    assert checked({"1": (1.0, 0), "2": (0.5, 0)})[1] == ["1", "2", "3", "4"]


def test_contradictions_are_cited_only_where_asked_for() -> None:
    table = {"2": (0.0, 0.9), "3": (0.0, 0.7)}
    outcome, _ = checked(table, Spec(anti_citations=True))
    assert [p.fact.source for p in outcome.claims[0].anti_cited] == ["1"]
    assert outcome.contradiction == 0.9
    assert checked(table)[0].claims[0].anti_cited == ()


def test_a_claim_is_as_good_as_its_weakest_clause_and_cites_nothing_if_one_is_unsupported() -> None:
    claim = Claim("It rained and it was windy and it snowed.", 0, 0, True)
    known = {"it rained": 0.9, "it was windy": 0.7, "it snowed": 0.8}

    def weigh(pairs: list[Pair]) -> list[Verdict]:
        return [Verdict(known[claim.text.lower().rstrip(".")], 0.1) for claim, _ in pairs]

    for threshold, sources in ((0.7, ["0"]), (0.75, [])):
        (outcome,) = drive([check_claims([claim], Fixed(PASSAGES[:1]), Spec(threshold))], weigh)
        assert isinstance(outcome, Outcome)
        assert (outcome.support, cited(outcome)) == (0.7, sources)


def test_scores_are_means_over_the_claims_that_need_grounding() -> None:
    claims = [Claim("Hello.", 0, 0, False), Claim("A.", 0, 0, True), Claim("B.", 0, 0, True)]

    def weigh(pairs: list[Pair]) -> list[Verdict]:
        return [Verdict(1.0, 0.0) if claim.text == "A." else Verdict(0.0, 0.5) for claim, _ in pairs]

    (outcome,) = drive([check_claims(claims, Fixed(PASSAGES), Spec())], weigh)
    assert isinstance(outcome, Outcome)
    assert (outcome.support, outcome.contradiction) == (0.5, 0.25)
    assert [c.score for c in outcome.claims] == [None, 1.0, 0.0]


def test_nothing_to_ground_and_nothing_to_ground_on() -> None:
    def weigh(pairs: list[Pair]) -> list[Verdict]:
        raise AssertionError("nothing to weigh")

    talk, claim = Claim("Hello.", 0, 0, False), Claim("A.", 0, 0, True)
    empty, bare = drive(
        [check_claims([talk], Fixed(PASSAGES), Spec()), check_claims([claim], Fixed([]), Spec())], weigh
    )
    assert isinstance(empty, Outcome)
    assert isinstance(bare, Outcome)
    assert (empty.support, empty.contradiction) == (None, 0.0)
    assert all(claim.score is None for claim in empty.claims)
    assert (bare.support, bare.contradiction) == (0.0, 0.0)
    assert any(claim.score is not None for claim in bare.claims)


def test_checks_are_weighed_together_and_one_that_fails_leaves_the_others_alone() -> None:
    class Broken(Fixed):
        def search(self, claims: list[Text], most: int) -> list[list[Passage]]:
            raise RowError("service_error", "no answer")

    sizes: list[int] = []

    def weigh(pairs: list[Pair]) -> list[Verdict]:
        sizes.append(len(pairs))
        return [Verdict(0.5, 0.0) for _ in pairs]

    claim = [Claim("A.", 0, 0, True)]
    checks = [check_claims(claim, source, Spec()) for source in (Fixed(PASSAGES), Broken([]), Fixed(PASSAGES[:1]))]
    outcomes = drive(checks, weigh)
    assert [getattr(o, "support", "failed") for o in outcomes] == [0.5, "failed", 0.5]
    assert sizes == [5, 1]


@given(st.dictionaries(st.sampled_from("1 2 3 4".split()), st.tuples(SHARE, SHARE)), SHARE, SHARE, SHARE)  # noqa: SIM905
def test_bounds_and_thresholds(table: dict[str, tuple[float, float]], joint: float, low: float, high: float) -> None:
    names = [" ".join(sorted(set)) for set in ({"1", "2"}, {"1", "2", "3"}, {"2", "3", "4"}, {"1", "3", "4"})]
    table = table | dict.fromkeys(names, (joint, 0.0))
    loose, strict = (checked(table, Spec(t, True, t))[0] for t in sorted((low, high)))
    assert loose.support is not None
    assert strict.support is not None
    assert 0 <= loose.support <= 1
    assert loose.support == strict.support
    assert len(loose.claims[0].anti_cited) >= len(strict.claims[0].anti_cited)
    assert set(map(id, loose.claims[0].cited)) >= set(map(id, strict.claims[0].cited))
    assert bool(strict.claims[0].cited) == (
        (strict.support >= max(low, high) and strict.support > 0) or max(low, high) == 0
    )
