"""The agent's code on its way: what may be named, and that it is importable in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from evalbeam import ConfigError
from evalbeam.pipelines.runners.packages import EXTRA, REQUIREMENTS, collect


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "code"
    (folder / "parcel" / "__pycache__").mkdir(parents=True)
    (folder / "one_file.py").write_text("from parcel import WORD\n")
    (folder / "parcel" / "__init__.py").write_text("WORD = open(__file__.replace('__init__.py', 'word.txt')).read()")
    (folder / "parcel" / "word.txt").write_text("blue")
    (folder / "parcel" / "__pycache__" / "x.pyc").write_text("")
    (folder / "data").mkdir()
    (folder / "data" / "rows.jsonl").write_text("")
    return folder


def test_a_folder_becomes_a_wheel_of_its_modules_and_packages(code: Path) -> None:
    (wheel,) = collect([str(code)]).wheels
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if ".dist-info/" not in n]
    assert names == ["one_file.py", "parcel/__init__.py", "parcel/word.txt"]
    first = Path(wheel).read_bytes()
    assert collect([str(code)]).wheels == (wheel,)
    assert Path(wheel).read_bytes() == first
    (code / "parcel" / "word.txt").write_text("red")
    assert collect([str(code)]).wheels != (wheel,)


def test_a_worker_imports_what_was_staged(code: Path, tmp_path: Path) -> None:
    (wheel,) = collect([str(code)]).wheels
    staged = tmp_path / "staged"
    staged.mkdir()
    (staged / Path(wheel).name).write_bytes(Path(wheel).read_bytes())
    (staged / EXTRA).write_text(f"{Path(wheel).name}\n")
    script = "import sys; from pathlib import Path; from evalbeam.pipelines.runners.packages import import_from\n"
    script += "import_from(Path(sys.argv[1])); import one_file; print(one_file.WORD)"
    done = subprocess.run([sys.executable, "-c", script, str(staged)], capture_output=True, text=True, check=True)
    assert done.stdout == "blue\n"


def test_a_worker_installs_the_requirements_that_were_staged(code: Path, tmp_path: Path) -> None:
    (wheel,) = collect([str(code)]).wheels
    staged = tmp_path / "staged"
    staged.mkdir()
    (staged / Path(wheel).name).write_bytes(Path(wheel).read_bytes())
    (staged / REQUIREMENTS).write_text("evalbeam-agent-code\n")
    script = "import sys; from pathlib import Path; from evalbeam.pipelines.runners.packages import import_from\n"
    script += "import_from(Path(sys.argv[1])); import one_file; print(one_file.WORD)"
    command, env = [sys.executable, "-c", script, str(staged)], {**os.environ, "PIP_NO_INDEX": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert done.stdout == "blue\n"
    (staged / REQUIREMENTS).write_text("no-such-package-of-anybody\n")
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert "agent.packages: ERROR: No matching distribution found for no-such-package-of-anybody" in done.stderr


def test_this_process_imports_them_too(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    folder = collect([str(code)]).import_here()
    assert folder is not None
    assert (Path(folder) / "one_file.py").exists()
    assert sys.path[0] == folder
    assert collect([]).import_here() is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "agent.packages.0: no such file or folder"),
        ("data.csv", r"agent.packages.0: found .*data.csv .allowed: wheels"),
        ("broken.whl", "agent.packages.0: found"),
        ("empty", "empty holds no Python module or package"),
    ],
)
def test_what_is_no_package_is_said(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "data.csv").write_text("a\n")
    (tmp_path / "broken.whl").write_text("no zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=message):
        collect([str(tmp_path / name)])


def test_there_is_one_requirements_file(tmp_path: Path) -> None:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text("")
    assert collect([str(files[0])]).requirements == str(files[0])
    with pytest.raises(ConfigError, match="found 2 requirements files"):
        collect([str(f) for f in files])
