"""The registry of parts by name: metrics, agents, readers, writers, dialects, judges and checkers.

A part is a class or function that its module registers under a kind and a name. `find` imports the folder of the kind
on first use, then the entry points of group `evalbeam.<kind>`; nothing else in the project imports by name.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..schemas.errors import ConfigError, name_error

T = TypeVar("T")

FOLDERS = {
    "metric": "metrics",
    "agent": "agents",
    "reader": "readers",
    "writer": "writers",
    "dialect": "dialects",
    "judge": "judges",
    "checker": "checkers",
}
_parts: dict[str, dict[str, Part]] = {kind: {} for kind in FOLDERS}
_loaded: set[str] = set()


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A registered part: its factory, and the parameters that its name fixes."""

    name: str
    factory: Callable[..., Any]
    preset: Mapping[str, Any]


def register(kind: str, name: str, **preset: Any) -> Callable[[T], T]:
    """Decorates a class or function to register it under `name`, with `preset` parameters fixed by that name.

    Raises:
        ValueError: The name is taken by another part.
    """

    def add(factory: T) -> T:
        known = _parts[kind].get(name)
        if known is not None and _origin(known.factory) != _origin(factory):
            raise ValueError(f"{kind} {name!r} is already registered by {_origin(known.factory)}")
        _parts[kind][name] = Part(name, factory, preset)  # type: ignore[arg-type]
        return factory

    return add


def find(kind: str, name: str, where: str = "") -> Part:
    """Returns the part that is registered under `name`.

    Raises:
        ConfigError: There is none; the message lists the nearest names.
    """
    parts = _load(kind)
    if name not in parts:
        listed = "a name that `evalbeam metrics` lists" if kind == "metric" else ", ".join(sorted(parts))
        raise name_error(f"no {kind} named {name!r}", name, parts, where, f"{listed}, or module:name")
    return parts[name]


def full_name(kind: str, name: str, families: Sequence[str]) -> str:
    """Returns the full name of a part: the name itself, or with the first family that has a part of that name."""
    parts = _load(kind)
    return next((n for n in (name, *(f"{family}/{name}" for family in families)) if n in parts), name)


def names(kind: str) -> list[str]:
    """Returns all registered names of a kind, sorted."""
    return sorted(_load(kind))


def name_of(kind: str, value: Any) -> str | None:
    """Returns the first name under which the class of a part is registered, preferring names without presets."""
    fitting = [p for p in _load(kind).values() if p.factory is type(value)]
    return min(fitting, key=lambda p: (len(p.preset), p.name)).name if fitting else None


def build(part: Part, params: Mapping[str, Any], where: str) -> Any:
    """Builds a part from the parameters of a configuration, checked against the fields of its dataclass.

    Raises:
        ConfigError: A parameter is unknown, missing or of a wrong type; the message names it and the choices.
    """
    factory = part.factory
    if not (isinstance(factory, type) and dataclasses.is_dataclass(factory)):
        try:
            return factory(**{**part.preset, **params})
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{part.name}: {error}", where=where) from None
    fields = {f.name: f for f in dataclasses.fields(factory) if f.init}
    for key in params:
        if key not in fields or key in part.preset:
            own = [k for k in fields if k not in part.preset]
            allowed = ", ".join(own) or "no parameters"
            raise name_error(f"{part.name} has no parameter {key!r}", key, own, where, allowed)
    for key, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and key not in params and key not in part.preset:
            raise ConfigError(f"{part.name} needs the parameter {key!r}", where=where)
    return _validate_and_build(factory, {**part.preset, **params}, part.name, where)


def _validate_and_build(factory: type, params: dict[str, Any], name: str, where: str) -> Any:
    try:
        types = typing.get_type_hints(factory)
    except Exception:  # annotations that only a type checker can resolve: the part checks itself
        types = {}
    try:
        return factory(**{k: _check_type(v, types.get(k, Any), f"{name}: {k}", where) for k, v in params.items()})
    except ConfigError as error:
        raise _add_place(error, where) from error.__cause__
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name}: {error}", where=where) from None


def _add_place(error: ConfigError, where: str) -> ConfigError:
    """Adds the key of the part to its error, unless the part knows it, as agents do."""
    if not where or error.where.partition(".")[0] == where.partition(".")[0]:
        return error
    return ConfigError(error.what, where=f"{where}.{error.where}" if error.where else where, allowed=error.allowed)


def _check_type(value: Any, type_: Any, name: str, where: str) -> Any:
    import pydantic

    from ..schemas.config.explain import describe_allowed, show_value

    try:
        try:
            adapter = pydantic.TypeAdapter(type_, config={"arbitrary_types_allowed": True})
        except pydantic.PydanticUserError:  # dataclasses and models bring a configuration of their own
            adapter = pydantic.TypeAdapter(type_)
        return adapter.validate_python(value)
    except pydantic.PydanticUserError:
        return value
    except pydantic.ValidationError as error:
        deepest = max(error.errors(), key=lambda e: len(e["loc"]))
        key = ".".join([name, *(str(p) for p in deepest["loc"] if "[" not in str(p))])
        raise ConfigError(
            f"{key} is {show_value(deepest['input'])}", where=where, allowed=describe_allowed(deepest)
        ) from None


def load_object(target: str, where: str) -> Any:
    """Imports the object that `"module:name"` (or `"module:a.b"`) names; user code is imported nowhere else.

    The working directory is searched first, as `python -m` does.

    Raises:
        ConfigError: The form is wrong, the module cannot be imported, or the name is not in it.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ConfigError(f"{target!r} names no object", where=where, allowed='"module:name"')
    if "" not in sys.path and "." not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        missing = getattr(error, "name", None)
        reason = f"module {missing!r} not found" if missing else str(error)
        places = "a module in the current folder, installed, or on PYTHONPATH" if missing == module_name else ""
        raise ConfigError(f"cannot import {module_name!r}: {reason}", where=where, allowed=places) from error
    except (Exception, SystemExit) as error:  # a script that calls sys.exit() would end the command
        raise ConfigError(f"importing {module_name!r} failed: {type(error).__name__}: {error}", where=where) from error
    found: Any = module
    for step in path.split("."):
        if not hasattr(found, step):
            public = [n for n in vars(found) if not n.startswith("_")] if hasattr(found, "__dict__") else []
            raise name_error(f"{module_name!r} has no {path!r}", step, public, where, ", ".join(public[:5]))
        found = getattr(found, step)
    return found


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a callable by name; none for builtins without a signature."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def is_async(function: Any) -> bool:
    """Returns true for a coroutine function, and for an object whose `__call__` is one."""
    return any(map(inspect.iscoroutinefunction, (function, getattr(type(function), "__call__", None))))  # noqa: B004


def has_module(name: str) -> bool:
    """Returns whether a module could be imported; only its parent packages are imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def require_module(name: str, extra: str, purpose: str, where: str = "") -> None:
    """Checks that a module is installed that a part requires.

    Args:
        name: The module.
        extra: The extra of this package that installs it.
        purpose: Name of the part, for the message.
        where: Key of the configuration that names the part.

    Raises:
        ConfigError: The module is missing.
    """
    if not has_module(name):
        found = f"{purpose} needs the package {name!r}, which is missing"
        raise ConfigError(found, where=where, allowed=f"pip install 'evalbeam[{extra}]'")


def _load(kind: str) -> dict[str, Part]:
    if kind not in _loaded:
        package = importlib.import_module(f"{__package__}.{FOLDERS[kind]}")
        for module in pkgutil.iter_modules(package.__path__):
            if not module.ispkg and module.name != "base" and not module.name.startswith("_"):
                importlib.import_module(f"{package.__name__}.{module.name}")
        for point in importlib.metadata.entry_points(group=f"evalbeam.{kind}"):
            register(kind, point.name)(point.load())
        _loaded.add(kind)
    return _parts[kind]


def _origin(factory: Any) -> str:
    return f"{getattr(factory, '__module__', '?')}.{getattr(factory, '__qualname__', '?')}"
