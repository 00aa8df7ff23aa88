"""Ratios of sums in a run: rows of the summary, criteria, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.schemas.errors import ConfigError

ROWS = [
    {"prompt": str(i), "reference": "a", "response": "ab"[i % 10 >= 7], "latency_in_seconds": 1 + i % 7, "g": i % 2}
    for i in range(420)
]
RATIOS = {"seconds_per_success": ["latency_in_seconds", "exact_match"]}


def run(output: Path, **options: Any) -> Any:
    given = {"ratios": RATIOS, **options.pop("statistics", {})}
    return evaluate(ROWS, ["exact_match"], output=output, slices=["g"], statistics=given, **options)


def test_a_ratio_has_rows_and_criteria_bound_it(tmp_path: Path) -> None:
    found = run(tmp_path / "out", criteria=[{"metric": "seconds_per_success", "max": 5}])
    rows = found.summary_table[found.summary_table["metric"] == "seconds_per_success"].to_dict("records")
    assert [row["slice"] for row in rows] == [{}, {"g": "0"}, {"g": "1"}]
    whole = rows[0]
    assert whole["mean"] == pytest.approx(4 / 0.7)
    assert whole["ci_low"] < 4 / 0.7 < whole["ci_high"]
    assert (whole["ci_method"], whole["scored_count"], found.verdict) == ("bootstrap", 420, "FAILED")


def test_tables_do_not_depend_on_how_the_work_is_cut(tmp_path: Path) -> None:
    runs = [run(tmp_path / str(shards), shards=shards, statistics={"ci": "bootstrap"}) for shards in (1, 8)]
    tables = [Path(one.files("summary")[0]).read_bytes() for one in runs]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ({"exact_match": ["failure", "exact_match"]}, "statistics.ratios.exact_match: 'exact_match' is the name of"),
        ({"new": ["failure", "exact_mach"]}, "statistics.ratios.new: .* did you mean 'exact_match'"),
        ({"new": ["failure"]}, "statistics.ratios.new"),
    ],
)
def test_errors_name_the_ratio(tmp_path: Path, ratios: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        run(tmp_path / "out", statistics={"ratios": ratios})
