"""The page of a comparison: what it counts is what the comparison counts, and no text of a run is read as HTML."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from evalbeam import Comparison, EvaluationResult, compare, evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.report.comparison import MOST_ROWS, render_comparison

Browse = Callable[..., str]
Runs = tuple[str, str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, hostile: str) -> Runs:
    """Two runs: of 90 rows 60 newly fail, 3 are fixed; in the prompts, answers and slices is a hostile text."""
    folder = tmp_path_factory.mktemp("compared")
    rows = [{"prompt": f"p{i} {hostile if i == 2 else ''}", "reference": "yes", "group": hostile} for i in range(90)]
    before = [{**row, "response": "no" if i < 3 else "yes"} for i, row in enumerate(rows)]
    after = [{**row, "response": f"no {hostile}" if 5 <= i < 65 else "yes"} for i, row in enumerate(rows)]
    paths = str(folder / "before"), str(folder / "after")
    evaluate(before, ["exact_match"], output=paths[0])
    evaluate(after, [{"metric": "exact_match"}, "rouge_l"], output=paths[1], slices=[["group"]])
    return paths


@pytest.fixture(scope="module")
def comparison(runs: Runs) -> Comparison:
    return compare(*runs, metrics=["exact_match"], slices=[["group"]], margin=0.05)


def words(page: str) -> str:
    bare = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]*>", " ", bare)))


def test_it_counts_as_the_comparison_does(comparison: Comparison) -> None:
    shown = words(render_comparison(comparison))
    (whole,) = [d for d in comparison.differences if not d.slice]
    assert (whole.newly_failing, whole.fixed) == (60, 3)
    assert f"Newly failing 60, of which {MOST_ROWS} with the largest loss are shown" in shown
    assert "Fixed 3 " in shown
    assert "FAILED 2 worse 90 instances in both" in shown
    order = [
        shown.index(word) for word in ("FAILED", "Gains", "Newly failing", "Fixed", "By group", "What else changed")
    ]
    assert order == sorted(order)


def test_both_answers_stand_side_by_side(comparison: Comparison) -> None:
    page = render_comparison(comparison)
    fixed = page[page.index("<h2>Fixed") :]
    before, after = re.findall(r"<h4>(?:Before|After)</h4>\s*<pre[^>]*>(.*?)</pre>", fixed, re.S)[:2]
    assert (before, after) == ("<del>no</del>", "<ins>yes</ins>")


def test_the_largest_changes_stand_first(tmp_path: Path) -> None:
    words = ["yes", "no no", "no no no no", "yes no no"]
    rows = [{"prompt": f"p{i}", "reference": "yes"} for i in range(len(words))]
    for name, answers in (("before", ["no"] * 4), ("after", words)):
        said = [{**row, "response": text} for row, text in zip(rows, answers, strict=True)]
        evaluate(said, ["rouge_l"], output=tmp_path / name, criteria=[{"metric": "rouge_l", "min": 0.3}])
    compared = [compare(*pair) for pair in itertools.permutations([str(tmp_path / n) for n in ("before", "after")])]
    for one, title in zip(compared, ("Fixed", "Newly failing"), strict=True):
        section = render_comparison(one).partition(f"<h2>{title}")[2].partition("</section>")[0]
        assert re.findall(r"p\d", section) == ["p0", "p3"]


def test_what_else_changed_is_listed(comparison: Comparison) -> None:
    shown = words(render_comparison(comparison))
    assert "only " + comparison.after + " has rouge_l" in shown
    assert "metrics[rouge_l].metric – rouge_l" in shown
    assert "output.path" not in shown


def test_the_same_bytes_again(comparison: Comparison) -> None:
    assert render_comparison(comparison) == render_comparison(comparison)


def test_the_command_writes_it_and_a_browser_shows_it(runs: Runs, tmp_path: Path, browse: Browse) -> None:
    path = tmp_path / "comparison.html"
    given = ["compare", *runs, "--metrics", "exact_match", "--slices", "group", "--margin", "0.05"]
    assert main([*given, "--html", str(path)]) == 1
    text = path.read_text()
    assert "script-src" not in text
    dom = browse(path)
    assert f"<title>{runs[1]} against {runs[0]}</title>" in dom
    assert not re.search(r"<(script|img)\b", dom)
    assert not re.search("[\x00-\x08\x1b\u2028\u2029\u202e]", dom)


def test_a_notebook_draws_results_and_comparisons(comparison: Comparison, result: EvaluationResult) -> None:
    cards: list[Any] = [comparison._repr_html_(), result._repr_html_()]
    for card, head in zip(cards, ("FAILED 2 worse", "FAILED 1 of 3 criteria 24 rows"), strict=True):
        assert len(card.encode()) < 100_000
        assert head in words(card)
        assert "<svg" in card
        assert not re.search(r"<(script|img)\b", card)
        assert not re.search("[\x00-\x08\x1b\u2028\u2029\u202e]", card)
    assert "exact_match 0.667" in words(cards[1])


def test_a_notebook_draws_runs_without_scores_and_with_many_metrics(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no row was scored"):
        result = evaluate([{"prompt": "p", "response": "r"}], ["exact_match"], output=tmp_path / "out")
    assert "NO RESULT" in words(result._repr_html_())
    many = [{"metric": "exact_match", "name": f"m{i}"} for i in range(300)]
    wide = evaluate([{"prompt": "p", "response": "r", "reference": "r"}], many, output=tmp_path / "wide")
    assert len(wide._repr_html_()) < 100_000
