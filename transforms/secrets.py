"""Secrets by reference: what a configuration may say instead of a key, resolved where the key is used.

`${env:NAME}` is a variable of the worker's environment, `${secret:projects/P/secrets/S/versions/V}` a version in Google
Secret Manager. The secret itself never stands in a configuration, so it cannot reach a manifest, a log or a pickle.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..schemas.errors import ConfigError

ALLOWED = "${env:NAME}, or ${secret:projects/P/secrets/S/versions/V}"
_REFERENCE = re.compile(r"\$\{(env|secret):([^{}]+)\}")


def check_reference(value: str | None, where: str) -> None:
    """Refuses a secret that is written out.

    Raises:
        ConfigError: The value is no reference; it is not shown.
    """
    if value is not None and not _REFERENCE.fullmatch(value):
        raise ConfigError("a secret is written out", where=where, allowed=ALLOWED)


def resolved(value: str | None, where: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The secret that a reference names; `None` stays `None`.

    Raises:
        ConfigError: It is no reference, or there is nothing under its name.
    """
    check_reference(value, where)
    match = _REFERENCE.fullmatch(value or "")
    if match is None:
        return None
    if match[1] == "env":
        if match[2] not in environ:
            raise ConfigError(f"the environment has no variable {match[2]!r}", where=where)
        return environ[match[2]]
    from google.cloud import secretmanager

    answer = secretmanager.SecretManagerServiceClient().access_secret_version(name=match[2])
    return answer.payload.data.decode()


def provide(references: Mapping[str, str], where: str = "agent.secrets") -> None:
    """Sets environment variables of this process to what references name.

    Args:
        references: Name of a variable to reference.
        where: Key of the configuration they stand under.

    Raises:
        ConfigError: As `resolved`.
    """
    for name, reference in references.items():
        os.environ[name] = resolved(reference, f"{where}.{name}") or ""
