import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.calls import Call, Outcome
from evalbeam.transforms.journal.journal import Journal
from evalbeam.transforms.journal.segments import Torn
from evalbeam.transforms.journal.summary import summarize


def write(folder, *outcomes, run="run"):
    journal = Journal(str(folder), run)
    for key, outcome in outcomes:
        journal.add(Call(key, None, f"{len(key):02x}"), outcome)
    journal.close()


def test_calls_count_once_by_what_settled_them(tmp_path):
    usage = {"response": "x", "usage": {"input_tokens": 10, "output_tokens": 2}}
    write(tmp_path, ("a", Outcome(kind="timeout", attempts=3, backoff_in_seconds=1.5)), ("b", Outcome(usage)), run="1")
    write(tmp_path, ("a", Outcome(usage, attempts=2, queued_in_seconds=0.5)), ("c", Outcome(kind="permanent")), run="2")
    found = summarize(str(tmp_path))
    assert found.calls == {"ok": 2, "permanent": 1}
    assert (found.settled, found.attempts) == (3, 7)  # what was tried again was paid for too
    assert (found.input_tokens, found.output_tokens) == (20, 4)
    assert (found.queued_in_seconds, found.backoff_in_seconds) == (0.5, 1.5)
    assert found.latency == {}


def test_what_is_not_read_is_told(tmp_path):
    for name in ("1", "2"):
        write(tmp_path, ("a" * 7, Outcome("x")), ("b" * 7, Outcome(kind="timeout")), run=name)
    killed, damaged = sorted((tmp_path / "07").iterdir())
    text = killed.read_bytes()
    end = text.index(b"\n") + 1
    killed.rename(killed.with_suffix(".open")).write_bytes(text[:-5])
    damaged.write_bytes(text[:-5])
    found = summarize(str(tmp_path))
    assert found.calls == {"ok": 1}
    assert set(found.torn) == {Torn(f"{killed}.open", end, False), Torn(str(damaged), end, True)}


def test_no_journal(tmp_path):
    found = summarize(str(tmp_path / "none"))
    assert (found.calls, found.settled, found.latency) == ({}, 0, {})


@given(seconds=st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_percentiles_are_numpys(seconds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    write(folder, *((str(i), Outcome("x", latency_in_seconds=s)) for i, s in enumerate(seconds)))
    found = summarize(str(folder)).latency
    assert found == {p: pytest.approx(np.percentile(seconds, p, method="inverted_cdf")) for p in (50, 90, 99)}
    assert all(math.isfinite(v) for v in found.values())
