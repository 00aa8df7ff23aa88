"""The rules of the house: who imports whom, how large things grow, and that lists agree with what they list."""

from __future__ import annotations

import ast
import graphlib
import inspect
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("schemas", "transforms", "pipelines")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = [*sorted(ROOT.glob("*.py")), *sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PART_FOLDERS = ("agents", "checkers", "dialects", "judges", "metrics", "readers", "writers")
CLOUD = ("google", "gcsfs", "apache_beam")


def name_of(path: Path) -> str:
    """Dotted name of a module within the package, "" for the root."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in SOURCES}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(dotted name, whether it is within the package) of every import in a file, those inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or "", False
        elif isinstance(node, ast.ImportFrom):
            package = name_of(path).split(".") if path.name == "__init__.py" else name_of(path).split(".")[:-1]
            base = [p for p in package if p][: len(package) - node.level + 1]
            base += (node.module or "").split(".") if node.module else []
            for alias in node.names:
                longer = ".".join([*base, alias.name])
                yield (longer if longer in MODULES else ".".join(base)), True


def is_part(module: str) -> bool:
    """Whether a module is a part: a file in a part folder beside its base.py."""
    steps = module.split(".")
    of_folder = len(steps) == 3 and steps[0] == "transforms" and steps[1] in PART_FOLDERS
    return of_folder and steps[2] != "base" and not steps[2].startswith("_")


def is_kernel(module: str) -> bool:
    """Whether a module is (in) a folder of helpers below a part folder, such as metrics/kernels."""
    return module.startswith("transforms.") and (
        len(module.split(".")) > 3 or (MODULES[module].name == "__init__.py" and len(module.split(".")) == 3)
    )


def broken_direction(module: str, target: str) -> str | None:
    """The rule that an import within the package breaks."""
    room, other = module.split(".")[0], target.split(".")[0]
    if module and not target:
        return "nothing imports the root"
    if room in ROOMS and ROOMS.index(other) > ROOMS.index(room):
        return "schemas <- transforms <- pipelines"
    if module == "transforms.registry" and other == "transforms":
        return "the registry knows no part"
    if room == "transforms" and is_part(target) and not is_kernel(target):
        return "steps, bases and parts import */base.py, never a part"
    if is_kernel(module) and target.endswith(".base"):
        return "kernels know no base"
    if module.startswith(("transforms.metrics", "transforms.judges")) and target == "schemas.config":
        return "metrics know no configuration"
    return None


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m or "root")
def test_imports_go_in_one_direction(module: str) -> None:
    broken = []
    for target, inside in imports(MODULES[module]):
        if inside and (rule := broken_direction(module, target)):
            broken.append(f"{target}: {rule}")
        if not inside and target.split(".")[0] == "evalbeam":
            broken.append(f"{target}: inside the package, imports are relative")
        if not inside and module.startswith("schemas") and target.split(".")[0] in CLOUD:
            broken.append(f"{target}: schemas know no Beam and no cloud")
        if not inside and module.startswith("transforms.metrics") and target.split(".")[0] in CLOUD:
            broken.append(f"{target}: metrics know no Beam and no cloud")
        if not inside and target == "importlib" and module not in ("", "transforms.registry"):
            broken.append(f"{target}: only the registry and the root import by name")
    assert not broken


def test_the_rules_of_direction_can_be_broken() -> None:
    assert broken_direction("schemas.instance", "transforms.score")
    assert broken_direction("transforms.score", "pipelines.plan")
    assert broken_direction("transforms.score", "transforms.metrics.trajectory")
    assert broken_direction("transforms.metrics.base", "transforms.metrics.trajectory")
    assert broken_direction("transforms.registry", "transforms.metrics.base")
    assert broken_direction("transforms.metrics.trajectory", "schemas.config")
    assert broken_direction("pipelines.plan", "")
    assert not broken_direction("transforms.metrics.trajectory", "transforms.metrics.kernels.calls")
    assert ("schemas.errors", True) in set(imports(ROOT / "transforms" / "registry.py"))
    assert ("transforms.io.storage", True) in set(imports(ROOT / "pipelines" / "run" / "evaluate.py"))


def room_of(module: str) -> str:
    """The room of a module: schemas as a whole, the steps of transforms one by one, every other folder."""
    steps = module.split(".")
    if steps[0] == "schemas":
        return "schemas"
    return ".".join(steps[:2]) if len(steps) > 1 else module


def circle(arrows: set[tuple[str, str]]) -> list[str]:
    """Places that lead back to where they began, none if the arrows hold no circle."""
    sorter = graphlib.TopologicalSorter[str]()
    for place, other in arrows:
        if place != other:
            sorter.add(place, other)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


ARROWS = {
    (module, target)
    for module, path in MODULES.items()
    for target, inside in imports(path)
    if inside and target and not (path.name == "__init__.py" and target.startswith(f"{module}."))
}


def test_no_module_imports_itself_by_a_detour() -> None:
    """Imports for type checkers and within functions count, too: what needs them to hide a circle is one."""
    assert not circle(ARROWS)


def test_no_room_depends_on_a_room_above_it() -> None:
    """Rooms without a circle stand on floors, and every arrow goes down."""
    rooms = {(room_of(a), room_of(b)) for a, b in ARROWS}
    assert not circle(rooms)
    assert len({room for arrow in rooms for room in arrow if room.startswith("transforms")}) <= 40


def test_circles_are_found() -> None:
    assert set(circle({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")})) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("paths", "most_lines", "longest_function"), [(SOURCES, 400, 40), (TESTS, 600, 80)], ids=["sources", "tests"]
)
def test_files_and_functions_stay_small(paths: list[Path], most_lines: int, longest_function: int) -> None:
    large = []
    for path in paths:
        text = path.read_text()
        if (lines := text.count("\n")) > most_lines:
            large.append(f"{path.relative_to(ROOT)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > longest_function:
                    large.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines")
    assert not large


def test_the_packages_list_is_the_tree() -> None:
    tree = sorted({".".join(["evalbeam", *p.parent.relative_to(ROOT).parts]) for p in SOURCES})
    assert PROJECT["tool"]["setuptools"]["packages"] == tree
    assert all((p.parent / "__init__.py").exists() for p in SOURCES)


def test_every_module_and_public_name_says_what_it_is() -> None:
    silent = []
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        where = path.relative_to(ROOT)
        if tree.body and not ast.get_docstring(tree):
            silent.append(str(where))
        for node in tree.body:
            public = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if public and not node.name.startswith("_") and not ast.get_docstring(node):
                silent.append(f"{where}:{node.lineno} {node.name}")
    assert not silent


def test_exports_exist() -> None:
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text())
        defined = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        defined |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        defined |= {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                listed = ast.literal_eval(node.value)
                assert set(listed) <= defined | {"__version__"}, module
                assert len(set(listed)) == len(listed), module


def test_registered_parts_describe_themselves() -> None:
    from evalbeam.transforms import registry

    silent = []
    for kind in registry.FOLDERS:
        for name in registry.names(kind):
            factory = registry.find(kind, name).factory
            own = factory.__dict__.get("__doc__") if isinstance(factory, type) else factory.__doc__
            first = inspect.cleandoc(own or "").split("\n")[0]
            if not first or first.startswith(f"{factory.__name__}("):  # what @dataclass writes where nothing stands
                silent.append(f"{kind} {name}")
    assert not silent


def test_no_path_of_a_machine_is_written_down() -> None:
    words = ["/" + word for word in ("work/", "root/", "home/", "Users/", "tmp/brief")]
    files = [*SOURCES, *TESTS, *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / ".ci" / "run", ROOT / "pyproject.toml"]
    found = [f"{p.relative_to(ROOT)}: {w}" for p in files for w in words if w in p.read_text()]
    assert not found
