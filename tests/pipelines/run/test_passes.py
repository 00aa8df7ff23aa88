"""pass^k and pass@k in a run: rows of the summary, criteria, failed trials, and errors of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalbeam import evaluate
from evalbeam.schemas.errors import ConfigError

ROWS = [{"prompt": str(i), "reference": "yes", "group": "ab"[i % 2]} for i in range(12)]
METRIC = {"metric": "exact_match", "pass_k": [1, 2, 4]}


class Agent:
    """Answers row i right in i of its first calls, and fails where it is told to."""

    def __init__(self, fails: bool = False) -> None:
        self.calls: dict[str, int] = {}
        self.fails = fails

    def __call__(self, prompt: str) -> str:
        self.calls[prompt] = number = self.calls.get(prompt, -1) + 1
        if self.fails and int(prompt) % 3 == 0:
            raise ValueError("no answer")
        return "yes" if number < int(prompt) else "no"


def run(output: Path, agent: Any = None, metric: Any = METRIC, **options: Any) -> Any:
    given = {"trials": 4, "agent": {"max_attempts": 1, "failure_threshold": None}, **options}
    return evaluate(ROWS, [metric], agent or Agent(), output=output, slices=["group"], **given)


def means(found: Any) -> dict[str, float]:
    table = found.summary_table
    whole = table[[not s for s in table["slice"]]].set_index("metric")
    return {name: whole["mean"][name] for name in whole.index if "/pass" in name}


def test_rates_are_rows_of_the_summary_that_criteria_bound(tmp_path: Path) -> None:
    """Rows 0 to 3 pass 0 to 3 of four trials, the other eight all."""
    found = run(tmp_path / "out", criteria={"exact_match/pass^4": 0.7, "exact_match/pass@4": {"min": 0.9}})
    expected = {
        "exact_match/pass^1": (0 + 1 / 4 + 2 / 4 + 3 / 4 + 8) / 12,
        "exact_match/pass@1": (0 + 1 / 4 + 2 / 4 + 3 / 4 + 8) / 12,
        "exact_match/pass^2": (0 + 0 + 1 / 6 + 3 / 6 + 8) / 12,
        "exact_match/pass@2": (0 + 3 / 6 + 5 / 6 + 1 + 8) / 12,
        "exact_match/pass^4": 8 / 12,
        "exact_match/pass@4": 11 / 12,
    }
    assert means(found) == pytest.approx(expected)
    assert list(means(found)) == list(expected)
    table = found.summary_table.set_index("metric").loc["exact_match/pass^2"]
    assert table["slice"].tolist() == [{}, {"group": "a"}, {"group": "b"}]
    assert table["row_count"].tolist() == table["n_clusters"].tolist() == [12, 6, 6]
    assert [(c["metric"], c["verdict"]) for c in found.manifest["criteria"]] == [
        ("exact_match/pass^4", "FAILED"),
        ("exact_match/pass@4", "PASSED"),
    ]


def test_a_failed_trial_does_not_pass(tmp_path: Path) -> None:
    found = run(tmp_path / "out", Agent(fails=True))
    assert means(found)["exact_match/pass^4"] == pytest.approx(6 / 12)
    row = found.summary_table.set_index("metric").loc["exact_match/pass^4"].iloc[0]
    assert (row["row_count"], row["scored_count"]) == (12, 12)


def test_tables_do_not_depend_on_how_the_work_is_cut(tmp_path: Path) -> None:
    runs = [run(tmp_path / str(n), shards=n, statistics={"ci": "bootstrap"}) for n in (1, 8)]
    tables = [one.summary_table[one.summary_table["metric"].str.contains("/pass")] for one in runs]
    assert len(tables[0]) == 18
    pd.testing.assert_frame_equal(tables[0], tables[1], check_exact=True)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ({"metric": "exact_match", "pass_k": [0]}, "metrics.0.pass_k.0"),
        ({"metric": "exact_match", "pass_k": [8]}, "metrics.0.pass_k: found 8, but each row is answered 4 times"),
        ({"metric": "rouge_l", "pass_k": 2}, "metrics.0.threshold: missing, but the scores of rouge_l need not be 0"),
        ({"metric": "rouge_l", "pass_k": 2, "threshold": 80}, "metrics.0.threshold: found 80.*allowed: 0 to 1"),
        ({"metric": "rouge_l", "pass_k": 2, "threshold": "high"}, "metrics.0.threshold: found 'high'.*a finite number"),
        ({"metric": "failure", "pass_k": 2}, "metrics.0.pass_k: found pass_k of failure"),
        ({"metric": "rouge_l", "threshold": 0.8}, "threshold"),
    ],
)
def test_errors_name_the_key(tmp_path: Path, metric: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run(tmp_path / "out", metric=metric)


def test_scores_that_are_not_shares_pass_with_a_threshold(tmp_path: Path) -> None:
    found = run(tmp_path / "out", metric={"metric": "rouge_l", "pass_k": 4, "threshold": 0.5})
    assert means(found)["rouge_l/pass^4"] == pytest.approx(8 / 12)
