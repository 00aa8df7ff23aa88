"""The wheel: what is in it, and that the command and the demo work from it, away from the checkout."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "tests", "evalbeam-out", "out")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, so that nothing of an earlier build is taken along."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "tree", ignore=LEFT_OUT)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(folder / "tree"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("evalbeam-*.whl"))


def test_the_wheel_carries_the_package_its_data_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    sources = [p for room in ("schemas", "transforms", "pipelines") for p in (ROOT / room).rglob("*.py")]
    sources += (ROOT / "transforms" / "judging" / "prompts").rglob("*.md")
    wanted = {f"evalbeam/{p.relative_to(ROOT).as_posix()}" for p in sources}
    wanted |= {"evalbeam/__init__.py", "evalbeam/__main__.py", "evalbeam/py.typed"}
    wanted |= {f"evalbeam/pipelines/demo/{name}" for name in ("rows.jsonl", "eval.yaml")}
    packed = {name for name in names if not name.startswith("evalbeam-")}
    assert packed == wanted
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_demo_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """`-I` leaves the checkout out of the search, the unpacked wheel stands before everything else."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    start = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import evalbeam, runpy; "
        f"print(evalbeam.__file__, evalbeam.__version__); sys.argv = ['demo', '--output', 'out']; "
        f"runpy.run_module('evalbeam.pipelines.demo', run_name='__main__')"
    )
    command = [sys.executable, "-I", "-c", start]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(tmp_path / "site" / "evalbeam" / "__init__.py"))
    assert "Criteria: PASSED" in done.stdout
    assert (tmp_path / "out" / "manifest.json").exists()


EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def brought() -> set[str]:
    """Distributions of what the package imports."""
    modules = {name.partition(".")[0] for name in imported()}
    return {owner for module, owners in packages_distributions().items() if module in modules for owner in owners}


def imported() -> Iterator[str]:
    """Modules that the package imports."""
    for source in (path for room in ("schemas", "transforms", "pipelines") for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"dev"}))
def test_an_extra_brings_what_the_package_imports_and_the_readme_names_it(extra: str, brought: set[str]) -> None:
    assert {re.split(r"[<>=]", requirement)[0] for requirement in EXTRAS[extra]} <= brought
    assert re.search(rf"`{extra}`|\[{extra}\]", (ROOT / "README.md").read_text())
