"""Notebooks with pandas 2, which has what Beam's interactive runner looks for; the other tests run with pandas 3."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from notebooks import check_first_hour

pytestmark = pytest.mark.engines


def test_a_first_hour_in_a_notebook(tmp_path: Path) -> None:
    folder = Path(os.environ.get("EVALBEAM_ENGINES", "~/.cache/evalbeam")).expanduser() / "pandas"
    if not (folder / "installed").exists():
        pytest.skip("pandas 2 is not installed (make test-engines installs it)")
    others = os.environ.get("PYTHONPATH", "")
    check_first_hour(tmp_path, 2, {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder / "2"), others]))})
