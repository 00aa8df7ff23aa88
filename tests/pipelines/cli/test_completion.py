"""Scripts for the completion of shells, in a real bash."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from evalbeam.pipelines.cli.commands.completion import SHELLS
from evalbeam.pipelines.cli.main import main, make_parser


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_with_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    commands = next(a.choices for a in make_parser()._actions if a.choices and "run" in a.choices)
    assert commands is not None
    assert [name for name in commands if name not in script] == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ch", {"check", "check-grounding"}),
        ("run --overw", {"--overwrite"}),
        ("run ev", {"eval.yaml"}),
        ("show ru", {"runs"}),
        ("retry ev", set()),
        ("run --as j", {"json", "junit"}),
    ],
)
def test_bash_completes(words: str, found: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "runs").mkdir()
    (tmp_path / "eval.yaml").touch()
    count = len(words.split())
    asked = f"source ./script; COMP_WORDS=(evalbeam {words}); COMP_CWORD={count}; _shtab_evalbeam"
    asked += '; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == found


def test_what_is_completed_does_not_change_what_is_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    parsed, rest = make_parser().parse_known_args(["run", "eval.yaml"])
    assert rest == ["eval.yaml"]
    assert not hasattr(parsed, "CONFIG")


def test_a_shell_of_another_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "cmd"]) == 2
    assert "'bash', 'zsh', 'fish', 'tcsh'" in capsys.readouterr().err
