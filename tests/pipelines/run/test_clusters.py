"""Clusters in a run: equal inputs, columns of the configuration, and the error of a column that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.schemas.errors import DatasetError

ROWS = [{"prompt": str(i), "reference": "a", "response": "ab"[i % 3 == 0], "talk": i // 6} for i in range(60)]


def run(output: Path, rows: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    found = evaluate(rows, ["exact_match"], output=output, **options).summary_table
    return found[found["metric"] == "exact_match"].to_dict("records")[0]


def test_rows_that_stand_twice_show_nothing_new(tmp_path: Path) -> None:
    once, many = run(tmp_path / "once", ROWS), run(tmp_path / "many", [row for row in ROWS for _ in range(50)])
    assert (many["row_count"], many["n_clusters"], once["n_clusters"]) == (3000, 60, 60)
    assert many["se"] == pytest.approx(once["se"])
    assert many["ci_high"] - many["ci_low"] >= once["ci_high"] - once["ci_low"]


@pytest.mark.parametrize("column", ["talk", ["talk"]])
def test_a_column_names_the_clusters_whatever_the_shards(tmp_path: Path, column: Any) -> None:
    runs = [run(tmp_path / str(n), ROWS, shards=n, statistics={"cluster": column}) for n in (1, 8)]
    assert repr(runs[0]) == repr(runs[1])
    assert (runs[0]["n_clusters"], runs[0]["ci_method"]) == (10, "cluster")


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"statistics\.cluster: .*no column 'tlak'.*did you mean 'talk'"):
        run(tmp_path / "out", ROWS, statistics={"cluster": "tlak"})
