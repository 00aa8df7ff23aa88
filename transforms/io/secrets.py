"""References to secrets, which a configuration contains instead of the secrets; resolved on the worker.

`${env:NAME}` is a variable of the worker's environment, `${file:PATH}` the content of a file there (without a trailing
line end), `${secret:projects/P/secrets/S/versions/V}` a version in Google Secret Manager. A configuration never
contains the secret itself, so that no manifest, log or pickle does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from ...schemas.errors import ConfigError
from ..registry import require_module

ALLOWED = "${env:NAME}, ${file:PATH} or ${secret:projects/P/secrets/S/versions/V}"
_REFERENCE = re.compile(r"\$\{(env|file|secret):([^{}]+)\}")
_LIKE_ONE = re.compile(r"\$\{\w+:[^{}]*\}")
_PLACEHOLDER = re.compile(r"\$\{\w+\}")
_NAMES = re.compile(r"auth|cookie|token|secret|password|credential|api-?_?key|-key$", re.IGNORECASE)


def check_reference(value: str | None, where: str) -> None:
    """Checks that a value is a reference, and not a secret.

    Raises:
        ConfigError: The value is no reference; the message does not contain it.
    """
    if value is not None and not _REFERENCE.fullmatch(value):
        raise _no_reference(value, where)


def check_text(value: str, where: str, name: str = "") -> None:
    """Checks the form of the references in a text, without resolving them.

    Args:
        value: The text.
        where: Its key of the configuration.
        name: The header whose value it is. Headers that hold secrets must refer to them.

    Raises:
        ConfigError: A reference is of an unknown kind, or a secret is written out; the message does not contain it.
    """
    if unknown := next((found for found in _LIKE_ONE.findall(value) if not _REFERENCE.fullmatch(found)), None):
        raise ConfigError(f"found {unknown!r}", where=where, allowed=ALLOWED)
    if _NAMES.search(name) and not _REFERENCE.search(value):
        raise _no_reference(value, where)


def _no_reference(value: str, where: str) -> ConfigError:
    """Builds the error of a value that should be a reference; it shows a placeholder of paths, but no other value."""
    placeholder = _PLACEHOLDER.search(value)
    found = f"{placeholder[0]} is filled in in paths only" if placeholder else "a secret is written out"
    return ConfigError(found, where=where, allowed=ALLOWED)


def resolved(value: str | None, where: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Returns the secret that a reference names; `None` for `None`.

    Raises:
        ConfigError: The value is no reference, or the reference names nothing.
    """
    check_reference(value, where)
    match = _REFERENCE.fullmatch(value or "")
    return None if match is None else _look(match[1], match[2], where, environ)


def look_up(value: Any, where: str, provided: Container[str] = ()) -> Iterator[ConfigError]:
    """Yields an error for each reference in a value that names nothing here, at any depth; skips Secret Manager.

    Args:
        value: A text, or nested lists and mappings of texts.
        where: Its key of the configuration.
        provided: Environment variables that will be set before the value is used.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from look_up(inner, f"{where}.{key}", provided)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from look_up(inner, where, provided)
    elif isinstance(value, str):
        for kind, name in _REFERENCE.findall(value):
            if kind == "secret" or (kind == "env" and name in provided):
                continue
            try:
                _look(kind, name, where, os.environ)
            except ConfigError as error:
                yield error


class Secrets:
    """Resolves references within texts, and hides the resolved secrets in messages."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def fill(self, text: str, where: str) -> str:
        """Replaces the references in a text by the secrets.

        Raises:
            ConfigError: A reference names nothing, or a secret cannot be the value of a header.
        """

        def look(match: re.Match[str]) -> str:
            value = _look(match[1], match[2], where, os.environ)
            if not value or not value.isprintable():
                found = "characters that cannot be printed, such as a line end" if value else "nothing"
                raise ConfigError(f"{match[0]} holds {found}", where=where)
            self._known.add(value)
            return value

        return _REFERENCE.sub(look, text)

    def hide(self, text: str) -> str:
        """Replaces every resolved secret in a text by `***`."""
        for value in sorted(self._known, key=len, reverse=True):
            text = text.replace(value, "***")
        return text


def provide(references: Mapping[str, str], where: str = "agent.secrets") -> None:
    """Sets environment variables of this process to the secrets that references name.

    Args:
        references: Name of a variable to reference.
        where: Key of the configuration that contains them.

    Raises:
        ConfigError: A value is no reference, or names nothing.
    """
    for name, reference in references.items():
        os.environ[name] = resolved(reference, f"{where}.{name}") or ""


def _look(kind: str, name: str, where: str, environ: Mapping[str, str]) -> str:
    if kind == "env":
        if name not in environ:
            raise ConfigError(f"the environment has no variable {name!r}", where=where)
        return environ[name]
    if kind == "file":
        try:
            with open(name, encoding="utf-8") as file:
                return file.read().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the file {name!r} cannot be read: {type(error).__name__}", where=where) from None
    require_module("google.cloud.secretmanager", "secrets", f"the reference to {name!r}", where)
    from google.cloud import secretmanager

    answer = secretmanager.SecretManagerServiceClient().access_secret_version(name=name)
    return answer.payload.data.decode()
