"""The JSON values that rows, answers and configurations hold."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list of them or dict from str to them."""
