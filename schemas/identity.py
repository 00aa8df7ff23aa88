"""Identity of rows: the hash of a row's input, and selection by that hash."""

from __future__ import annotations

import hashlib

import orjson

from .json import Json

HASHES = 1 << 64
"""Number of values of a hash of 64 bits."""
_TEXT = {str}


def selection_hash(instance_id: str) -> int:
    """Returns the 64 bits of an id by which `sample` and `limit` select; they are independent of the shard's bits."""
    return int(instance_id[16:32], 16)


def position(instance_id: str, ranges: int) -> int:
    """Returns which of `ranges` equal ranges of the hash (a power of two, at most 2**32) contains an id."""
    return int(instance_id[:8], 16) * ranges >> 32


def input_id(instance_id: str) -> str:
    """Returns the part of an id that equal inputs share: all but the ordinal that tells them apart."""
    return instance_id.partition("-")[0]


def canonical(value: Json) -> bytes:
    """Encodes a value as canonical JSON, equal for equal values: keys sorted, 1.0 written as 1."""
    return _encode_sorted(_convert_integral(value))


def _convert_integral(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_convert_integral(v) for v in value]
    if isinstance(value, dict):
        return {k: _convert_integral(v) for k, v in value.items()}
    return value


def hash_input(given: dict[str, Json]) -> str:
    """Hashes a row's input to 32 hexadecimal digits; input of texts only, the usual case, needs no number handling."""
    data = _encode_sorted(given) if {*map(type, given.values())} == _TEXT else canonical(given)
    return hashlib.sha256(data).hexdigest()[:32]


def _encode_sorted(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
