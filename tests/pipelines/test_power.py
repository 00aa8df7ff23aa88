"""The next run is planned from a finished one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalbeam import evaluate
from evalbeam.pipelines.cli.main import main
from evalbeam.pipelines.power import plan_next
from evalbeam.schemas.errors import ConfigError

ASKED: list[str] = []


def moody(prompt: str) -> str:
    """Half of the rows are always right; the others are right in every other trial."""
    ASKED.append(prompt)
    return "a" if int(prompt) % 2 or ASKED.count(prompt) % 2 else "b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "out"
    rows = [{"prompt": str(i), "reference": "a"} for i in range(100)]
    evaluate(rows, ["exact_match"], moody, trials=4, output=path)
    return path


def test_trials_tell_what_the_same_rows_show(folder: Path) -> None:
    [found] = plan_next(folder, margin=0.05).metrics
    assert found.components is not None
    assert found.components.trial == pytest.approx(50 * 4 * 0.25 / 300)
    within = found.components.trial / 4
    assert found.components.whole == pytest.approx(0.25 * 0.25 * 100 / 99)
    quantiles = 1.959964 + 0.841621
    assert found.gain_same_rows == pytest.approx(quantiles * (2 * within / 100) ** 0.5, rel=1e-6)
    assert found.rows_same == pytest.approx((quantiles / 0.05) ** 2 * 2 * within, abs=1)
    assert found.gain_other_rows is not None
    assert found.gain_other_rows > found.gain_same_rows


def test_the_command_names_its_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(folder), "--margin", "0.05", "--row-price", "2"]) == 0
    said = capsys.readouterr().out
    for words in ("probability of 80 %", "exact_match", "Rows needed", "Buy next", "have no price"):
        assert words in said


def test_a_row_that_costs_money_makes_trials_worth_more(folder: Path) -> None:
    free, dear = plan_next(folder).metrics[0], plan_next(folder, row_price=1.0).metrics[0]
    assert (free.best, dear.best) == ("rows", "rows")
    assert free.bought == {"rows": 1.0}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"margin": 0}, "margin: found 0"),
        ({"margin": float("nan")}, "margin: found nan"),
        ({"confidence": 1}, "confidence: found 1"),
        ({"row_price": -1}, "row_price: found -1"),
        ({"metrics": ["exact_mach"]}, "did you mean 'exact_match'"),
    ],
)
def test_errors_say_what_is_allowed(folder: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        plan_next(folder, **options)


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no finished run"):
        plan_next(tmp_path)
