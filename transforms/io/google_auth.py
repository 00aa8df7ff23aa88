"""Access tokens of Google Cloud, from the credentials of the environment."""

from __future__ import annotations

import asyncio
from typing import Any

from ...schemas.errors import ConfigError

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)


class GoogleToken:
    """The token of Application Default Credentials, renewed before it expires.

    Raises:
        ConfigError: There are no credentials.
    """

    def __init__(self) -> None:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError

        try:
            self._credentials: Any = google.auth.default(scopes=_SCOPES)[0]
        except DefaultCredentialsError as error:
            allowed = "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS"
            raise ConfigError(f"no Google credentials: {error}", where="agent", allowed=allowed) from None
        self._lock: asyncio.Lock | None = None

    async def get(self) -> str:
        """Returns a token that is valid for some minutes at least; a new one is fetched on a thread."""
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if not self._credentials.valid:
                await asyncio.to_thread(self._refresh)
        return self._credentials.token

    def _refresh(self) -> None:
        from google.auth.transport.requests import Request

        self._credentials.refresh(Request())
