"""Who a row is: the hash of its input, and what is chosen by it."""

from __future__ import annotations

import hashlib

import orjson

from .json import Json

_HASHES = 1 << 64
_TEXT = {str}


def selection_hash(instance_id: str) -> int:
    """64 bits of an id that `sample` and `limit` choose by; independent of those that choose the shard."""
    return int(instance_id[16:32], 16)


def position(instance_id: str, ranges: int) -> int:
    """Which of `ranges` equal ranges of the id's hash (a power of two, at most 2**32) an id falls into."""
    return int(instance_id[:8], 16) * ranges >> 32


def canonical(value: Json) -> bytes:
    """JSON bytes that are the same for equal values: keys sorted, 1.0 written as 1."""
    return _sorted(_integral(value))


def _integral(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_integral(v) for v in value]
    if isinstance(value, dict):
        return {k: _integral(v) for k, v in value.items()}
    return value


def _hashed(given: dict[str, Json]) -> str:
    return hashlib.sha256(_sorted(given) if {*map(type, given.values())} == _TEXT else canonical(given)).hexdigest()[
        :32
    ]


def _sorted(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
