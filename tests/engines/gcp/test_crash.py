"""Ten thousand calls whose process is killed in the middle: nothing is lost, and what is paid twice is bounded."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from steady_agent import AGENT, calls

pytestmark = [pytest.mark.engines, pytest.mark.faults]

CALLS, IN_FLIGHT, FLUSH, TRIALS = 10_000, 64, 500, 3
PROMPTS = [f"p{i}" for i in range(CALLS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset and an agent."""
    made = tmp_path_factory.mktemp("crash")
    (made / "steady.py").write_text(AGENT)
    rows = [json.dumps({"prompt": prompt, "reference": prompt.upper()}) + "\n" for prompt in PROMPTS]
    (made / "rows.jsonl").write_text("".join(rows))
    return made


@pytest.fixture(scope="module", params=["disk", "gs"])
def place(request: pytest.FixtureRequest, cloud: Any, folder: Path) -> tuple[str, Path, int]:
    """(where runs are, the folder they are found in, calls a kill may cost)."""
    if request.param == "disk":
        return str(folder), folder, IN_FLIGHT
    return cloud.url("crash"), cloud.file("crash"), IN_FLIGHT + FLUSH


def run(cloud: Any, folder: Path, output: str, dies_after: int | None = None) -> Any:
    arguments = ["run", "--dataset", "rows.jsonl", "--agent", "steady:ask", "--metrics", "exact_match"]
    arguments += ["--output", output, "--set", f"agent.max_in_flight={IN_FLIGHT}"]
    env = {"SECONDS": "0.02"} | ({} if dies_after is None else {"DIES_AFTER": str(dies_after)})
    return cloud.evalbeam(*arguments, cwd=folder, env=env)


def tables(folder: Path) -> dict[str, bytes]:
    """Bytes of a run's tables by name."""
    files = [*folder.glob("instances/*"), folder / "summary.parquet", folder / "errors.parquet"]
    assert len(files) >= 3
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def calm(cloud: Any, folder: Path, place: tuple[str, Path, int]) -> dict[str, bytes]:
    """The tables of a run that nothing happened to."""
    ended = run(cloud, folder, f"{place[0]}/calm")
    assert ended.returncode == 0, ended.stderr
    return tables(place[1] / "calm")


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_killed_run_is_paid_for_once(
    share: float, cloud: Any, folder: Path, place: tuple[str, Path, int], calm: dict[str, bytes]
) -> None:
    where, found, bound = place
    for trial in range(TRIALS):
        (folder / "calls.txt").unlink()
        name = f"killed-{share}-{trial}"
        assert run(cloud, folder, f"{where}/{name}", round(share * CALLS)).returncode == -signal.SIGKILL
        assert not (found / name / "manifest.json").exists()
        ended = run(cloud, folder, f"{where}/{name}")
        assert ended.returncode == 0, ended.stderr
        made = calls(folder)
        print(f"killed at {share:.0%}: {len(made) - CALLS} calls made twice")
        assert set(made) == set(PROMPTS)
        assert len(made) - CALLS <= bound
        assert tables(found / name) == calm
