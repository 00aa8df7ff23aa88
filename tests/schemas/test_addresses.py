"""Addresses: which hold a secret, and that none is shown."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.addresses import has_secret, hide_secrets

HOSTS = st.sampled_from(["host", "host:5000", "[::1]:80", "a.b.example.com"])
WORDS = st.text("abcdefXYZ0123456789-_/.!", min_size=1, max_size=12)


@given(HOSTS, WORDS, WORDS)
def test_a_password_is_found_and_hidden(host: str, user: str, password: str) -> None:
    secret = f"s3cr3t{password}"
    address = f"https://{user}:{secret}@{host}/path"
    assert has_secret(address)
    assert hide_secrets(f"cannot reach '{address}' now") == f"cannot reach 'https://***@{host}/path' now"


@given(HOSTS, WORDS, st.sampled_from(["token", "api-key", "X-Signature", "password", "authorization"]))
def test_a_token_among_the_values_is_found_and_hidden(host: str, value: str, name: str) -> None:
    address = f"https://{host}/path?n=1&{name}={quote(value, safe='')}&m=2"
    assert has_secret(address)
    assert hide_secrets(address) == f"https://{host}/path?n=1&{name}=***&m=2"


@pytest.mark.parametrize(
    "address",
    ["http://host:5000/a?n=1", "sqlite:///a.db", "databricks://profile", "a@b", "http://[::1]/", "http://[", ""],
)
def test_other_addresses_stay_as_they_are(address: str) -> None:
    assert not has_secret(address)
    assert hide_secrets(address) == address
