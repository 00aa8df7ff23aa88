"""Makes the packages of `agent.packages` importable, in this process and on every worker.

A folder with a pyproject.toml or setup.py is built into a wheel; modules and packages of any other folder are packed
into one; wheels stay as they are. Beam stages them to the workers, where they are unpacked into one folder without
their dependencies. Those are listed in a requirements file (a text file), which pip installs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...schemas.errors import ConfigError

REQUIREMENTS, EXTRA = "requirements.txt", "extra_packages.txt"
"""Names under which Beam stages a requirements file, and the list of the packages beside it."""
_WHERE = "agent.packages"
_ALLOWED = "wheels (.whl), folders with Python code, and one requirements file (.txt)"


@dataclass(frozen=True)
class Packages:
    """The packages that are staged to the workers.

    Attributes:
        wheels: Paths of wheels.
        requirements: Path of a requirements file.
    """

    wheels: tuple[str, ...] = ()
    requirements: str | None = None

    def __bool__(self) -> bool:
        return bool(self.wheels or self.requirements)

    def import_here(self) -> str | None:
        """Makes them importable in this process; returns their folder, or `None` if there are none."""
        if not self:
            return None
        requirements = None if self.requirements is None else Path(self.requirements)
        return str(_import(installed([*map(Path, self.wheels)], requirements)))


def collect(paths: Sequence[str]) -> Packages:
    """Finds the packages of a configuration, and builds them if necessary.

    Raises:
        ConfigError: A path does not exist, is of no allowed kind, or cannot be built.
    """
    wheels, requirements = [], []
    for i, text in enumerate(paths):
        path, where = Path(text), f"{_WHERE}.{i}"
        if not os.path.exists(path):  # not by pathlib, which raises if a name is too long
            raise ConfigError(f"no such file or folder: {text}", where=where)
        if path.is_dir():
            wheels.append(_build_wheel(path, where) if _is_project(path) else _pack_wheel(path, where))
        elif path.suffix == ".whl" and zipfile.is_zipfile(path):
            wheels.append(path.resolve())
        elif path.suffix == ".txt":
            requirements.append(str(path.resolve()))
        else:
            raise ConfigError(f"found {text}", where=where, allowed=_ALLOWED)
    if len(requirements) > 1:
        raise ConfigError(f"found {len(requirements)} requirements files", where=_WHERE, allowed="one, of all")
    return Packages(tuple(map(str, wheels)), requirements[0] if requirements else None)


def import_from(staged: Path) -> None:
    """Makes the packages importable that Beam has staged into a folder of a worker."""
    listed = staged / EXTRA
    names = listed.read_text().split() if listed.exists() else []
    wheels = [staged / n for n in names if n.endswith(".whl")]
    requirements = staged / REQUIREMENTS
    if wheels or requirements.exists():
        _import(installed(wheels, requirements if requirements.exists() else None, staged))


def installed(wheels: Sequence[Path], requirements: Path | None, found_in: Path | None = None) -> Path:
    """Installs packages into a folder, once for the same contents on each machine; returns the folder.

    Raises:
        ConfigError: pip cannot install the requirements.
    """
    parts = [*wheels, *([requirements] if requirements else [])]
    digest = hashlib.sha256(b"".join(hashlib.sha256(p.read_bytes()).digest() for p in parts)).hexdigest()[:16]
    folder = _cache() / digest
    with _ProcessLock(digest):
        if not folder.exists():
            making = Path(tempfile.mkdtemp(dir=_cache()))
            if requirements:
                links = ["--find-links", str(found_in)] if found_in else []
                _pip("install", "--quiet", "--target", str(making), *links, "--requirement", str(requirements))
            for wheel in wheels:
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(making)
            making.rename(folder)
    return folder


def _import(folder: Path) -> Path:
    """Puts a folder first on the import path of this process and of its children."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
        inherited = [p for p in (os.environ.get("PYTHONPATH"),) if p]
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *inherited])
    return folder


def _is_project(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("pyproject.toml", "setup.py"))


def _build_wheel(folder: Path, where: str) -> Path:
    target = Path(tempfile.mkdtemp(prefix="evalbeam-wheel-"))
    try:
        _pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(folder))
    except ConfigError as error:
        raise ConfigError(f"{folder} cannot be built: {error.what}", where=where) from None
    return next(target.glob("*.whl"))


def _pack_wheel(folder: Path, where: str) -> Path:
    """Packs the modules and packages of a folder into a wheel; equal contents give equal bytes."""
    files = sorted(_code(folder))
    if not files:
        raise ConfigError(f"{folder} holds no Python module or package", where=where, allowed=_ALLOWED)
    contents = {f.relative_to(folder).as_posix(): f.read_bytes() for f in files}
    digest = hashlib.sha256(b"".join(k.encode() + b"\0" + v for k, v in contents.items())).hexdigest()[:12]
    name = f"evalbeam_agent_code-0+{digest}"
    about = f"Metadata-Version: 2.1\nName: evalbeam-agent-code\nVersion: 0+{digest}\n"
    contents |= {
        f"{name}.dist-info/METADATA": about.encode(),
        f"{name}.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    contents[f"{name}.dist-info/RECORD"] = "".join(f"{path},,\n" for path in contents).encode()
    wheel = _cache() / f"{name}-py3-none-any.whl"
    with _ProcessLock(digest), zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return wheel


def _code(folder: Path) -> Iterator[Path]:
    """Yields the modules at the top of a folder, and all files of its packages."""
    yield from folder.glob("*.py")
    for package in folder.iterdir():
        if (package / "__init__.py").exists():
            yield from (f for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def _cache() -> Path:
    folder = Path(tempfile.gettempdir()) / f"evalbeam-packages-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ConfigError(f"{folder} belongs to somebody else", where=_WHERE)
    return folder


class _ProcessLock:
    """A lock between processes, one for each word."""

    def __init__(self, word: str) -> None:
        self._path = _cache() / f"{word}.lock"

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines: Iterable[str] = done.stderr.strip().splitlines() or ["pip failed"]
        raise ConfigError(list(lines)[-1], where=_WHERE)
