"""Functions of three kinds behind one callable."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from evalbeam.schemas.calls import Call
from evalbeam.transforms.calls.callee import reading

CALL = Call("k", 20)


def plain(value: int, key: str) -> Any:
    return value + 1


async def coroutine(value: int, key: str) -> Any:
    return value + 1


def returning_a_coroutine(value: int, key: str) -> Any:
    return coroutine(value, key)


def made(ask: Any) -> Any:
    def read(raw: int, call: Call) -> str:
        if raw != 21:
            raise ValueError("no answer")
        return f"{raw} of {call.key}"

    return reading(ask, lambda call: (call.request, call.key), read)


def outcome(value: Any) -> Any:
    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited()) if inspect.isawaitable(value) else value


@pytest.mark.parametrize("ask", [plain, coroutine, returning_a_coroutine])
def test_answers_are_read_whatever_kind_of_function_gives_them(ask: Any) -> None:
    assert inspect.iscoroutinefunction(made(ask)) == (ask is coroutine)
    assert outcome(made(ask)(CALL)) == "21 of k"
    with pytest.raises(ValueError, match="no answer"):
        outcome(made(ask)(Call("k", 1)))


def test_what_is_to_be_closed_still_is() -> None:
    def closable(value: int, key: str) -> Any: ...

    closable.close = print  # type: ignore[attr-defined]
    assert made(closable).close is print
    assert made(plain).close is None
