"""Addresses of services: which hold a secret, and how they are shown without it."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

_WORDS = "auth|token|secret|password|credential|key|sig"
_USER = re.compile(r"(://)[^\s'\"]*@")  # a password that is not encoded may hold a slash
_NAME = re.compile(_WORDS, re.IGNORECASE)
_VALUE = re.compile(rf"([?&][^=&#\s]*(?:{_WORDS})[^=&#\s]*=)[^&#\s'\"]+", re.IGNORECASE)


def has_secret(address: str) -> bool:
    """Returns whether an address holds credentials: a user before its host, or a value named like a secret."""
    if _USER.search(address):
        return True
    try:
        given = parse_qsl(urlsplit(address).query)
    except ValueError:  # brackets that are no IPv6 address
        return False
    return any(_NAME.search(name) for name, _ in given)


def hide_secrets(text: str) -> str:
    """Replaces the credentials of every address in a text by `***`."""
    return _VALUE.sub(r"\1***", _USER.sub(r"\1***@", text))
