"""The wheel: what is in it, and that the command and the demo work from it, away from the checkout."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from functools import cache
from importlib.metadata import files, packages_distributions, requires
from pathlib import Path

import pytest

from evalbeam.pipelines.runners.options import pipeline_options
from evalbeam.schemas.errors import ConfigError
from evalbeam.transforms.io.secrets import provide

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
    pages = ("drawing/templates", "report/templates", "report/web")
    sources += [path for folder in pages for path in (ROOT / "pipelines" / folder).iterdir()]
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
    assert "PASSED 7/7 criteria" in done.stdout
    assert (tmp_path / "out" / "manifest.json").exists()


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
BROUGHT = {
    "apache-beam": {
        "google-cloud-dataflow-client",
        "grpcio",
        "protobuf",
        "zstandard",
    },  # the first in our extra dataflow
    "gcsfs": {"google-cloud-storage"},
    "google-cloud-bigquery": {"google-api-core", "google-cloud-bigquery-storage"},
    "mlflow-skinny": {"opentelemetry-api"},  # read only where a process has imported it already
    "jinja2": {"markupsafe"},
    "google-genai": {"httpx"},  # its connections are httpx's, and imported to be handed to it
}
"""What the package imports undeclared, by what brings it and decides its version."""
HOSTS = {"ipython"}
"""What the package imports only if it already runs within it."""


def names_in(requirements: Iterable[str]) -> set[str]:
    """The distributions that are required."""
    return {named(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


def named(distribution: str) -> str:
    """A distribution's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported() -> set[str]:
    """Modules of others that the package imports, or names in them."""
    rooms = [path for room in ("schemas", "transforms", "pipelines") for path in (ROOT / room).rglob("*.py")]
    found = set()
    for source in (*ROOT.glob("*.py"), *rooms):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names}


@cache
def modules_of(distribution: str) -> set[str]:
    """Modules and packages that a distribution installs, with dots."""
    paths = [path.with_suffix("") for path in files(distribution) or () if path.suffix in (".py", ".so")]
    return {".".join(path.parent.parts if path.name == "__init__" else path.parts) for path in paths}


def owner(name: str, sharing: set[str]) -> str:
    """Of the distributions that share a namespace the one that has the most of a dotted name."""
    if len(sharing) == 1:
        return named(*sharing)

    def most(distribution: str) -> int:
        return max((len(m) for m in modules_of(distribution) if f"{name}.".startswith(f"{m}.")), default=0)

    return named(max(sorted(sharing), key=most))


def test_what_is_declared_is_what_the_package_imports() -> None:
    extras = set(EXTRAS) - {"dev", "docs"}  # tools
    declared = names_in([*PROJECT["dependencies"], *(r for extra in extras for r in EXTRAS[extra])])
    installed = packages_distributions()
    used = {owner(name, set(installed[name.partition(".")[0]])) for name in imported()}
    assert used - HOSTS == declared | set().union(*BROUGHT.values())


@pytest.mark.parametrize("bringer", BROUGHT)
def test_what_is_not_declared_is_brought(bringer: str) -> None:
    assert names_in(requires(bringer) or ()) >= BROUGHT[bringer]


@pytest.mark.parametrize("extra", sorted(set(EXTRAS) - {"dev"}))
def test_an_extra_is_in_the_readme_and_the_tests_have_its_bounds(extra: str) -> None:
    assert re.search(rf"`{extra}`|\[{extra}\]", (ROOT / "README.md").read_text())
    tried = [requirement for requirement in EXTRAS["dev"] if names_in([requirement]) & names_in(EXTRAS[extra])]
    assert set(tried) <= set(EXTRAS[extra])


def test_what_few_need_is_an_extra_that_the_message_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("[gcp]" in requirement for requirement in PROJECT["dependencies"])
    monkeypatch.setitem(sys.modules, "google.cloud.dataflow_v1beta3", None)
    with pytest.raises(ConfigError, match=r"DataflowRunner needs .*pip install 'evalbeam\[dataflow\]'"):
        pipeline_options(["--runner=DataflowRunner"])
    monkeypatch.setitem(sys.modules, "google.cloud.secretmanager", None)
    with pytest.raises(ConfigError, match=r"agent.secrets.TOKEN.*pip install 'evalbeam\[secrets\]'"):
        provide({"TOKEN": "${secret:projects/P/secrets/S/versions/1}"})


def test_beam_without_its_extra_says_nothing() -> None:
    start = "import sys; sys.modules['apitools'] = None; import evalbeam; from evalbeam import evaluate"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_ON_WINDOWS = """
import sys
from evalbeam.pipelines.cli.main import main
import evalbeam
sys.platform = "win32"
try:
    evalbeam.evaluate
except ImportError as error:
    print(error)
sys.exit(main(["--version"]))
"""


def test_windows_is_told_in_a_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", _ON_WINDOWS], capture_output=True, text=True)
    said = "evalbeam runs on Linux and macOS; on Windows, install it in WSL, the Windows Subsystem for Linux"
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (2, said, f"evalbeam: error: {said}")
