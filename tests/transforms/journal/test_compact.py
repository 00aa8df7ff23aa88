"""A compacted journal says what its segments said."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystems import FileSystems
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.calls import Call, Outcome
from evalbeam.transforms.io import storage
from evalbeam.transforms.journal.compact import NAME, Compacted
from evalbeam.transforms.journal.journal import Journal, compact, list_segments, read_journal
from evalbeam.transforms.journal.summary import summarize

ANSWERS = st.dictionaries(st.text(max_size=3), st.floats(0, 1)) | st.none() | st.text()
OUTCOMES = st.one_of(
    st.builds(Outcome, ANSWERS, attempts=st.just(2)),
    st.builds(
        Outcome,
        st.none() | st.just({"usage": {"input_tokens": 7, "output_tokens": 1}}),
        st.sampled_from(["transient", "permanent"]),
        error_type=st.just("E"),
        refused=st.just(1),
    ),
)


def as_replayed(outcome):
    return replace(outcome, replayed=True)


def write(folder, records, run):
    journal = Journal(str(folder), run)
    for i, outcome in records:
        journal.add(Call(f"{i:064x}", None, f"{i % 4:02x}"), outcome)
    journal.close()


@given(records=st.lists(st.tuples(st.integers(0, 20), OUTCOMES), max_size=30), data=st.data())
def test_nothing_changes_but_the_files(records, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    half = data.draw(st.integers(0, len(records)))
    write(folder, records[:half], "first")
    compact(str(folder))
    write(folder, records[half:], "second")
    before, found = summarize(str(folder)), answers(folder)
    assert compact(str(folder)) == len(list(read_journal(str(folder))))
    assert list_segments(str(folder)) == {}
    after = summarize(str(folder))
    assert (after.calls, after.settled) == (before.calls, before.settled)
    for i, outcome in answers(folder).items():
        assert (outcome is None) == (found[i] is None)
        given = [as_replayed(o) for k, o in records if k == i]
        assert outcome is None or outcome in given


def test_a_compaction_that_ends_at_its_last_step_loses_nothing(tmp_path, monkeypatch):
    write(tmp_path, [(i, Outcome(i)) for i in range(10)], "first")
    compact(str(tmp_path))
    write(tmp_path, [(i, Outcome(i)) for i in range(10, 21)], "second")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(FileSystems, "rename", killed)
        patched.setattr(storage.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(str(tmp_path))
    assert answers(tmp_path) == {i: Outcome(i, replayed=True) for i in range(21)}


def answers(folder):
    journal = Journal(str(folder), "another")
    return {i: journal.find(call_of(i)) for i in range(21)}


def call_of(i):
    return Call(f"{i:064x}", None, f"{i % 4:02x}")


def test_a_row_group_for_each_prefix(tmp_path):
    write(tmp_path, [(i, Outcome({"n": i})) for i in range(100)], "run")
    assert compact(str(tmp_path)) == 100
    assert pq.ParquetFile(tmp_path / NAME).num_row_groups == 4
    assert [outcome.value["n"] for _, _, outcome in Compacted(str(tmp_path)).read("01")] == list(range(1, 100, 4))
    assert Journal(str(tmp_path), "another").find(call_of(42)) == Outcome({"n": 42}, replayed=True)
    assert list(Compacted(str(tmp_path / "none")).read("01")) == []


def test_a_compaction_that_was_interrupted_counts_nothing_twice(tmp_path):
    usage = {"usage": {"input_tokens": 7, "output_tokens": 1}, "big": 2**53 + 1, "text": "é\u2028"}
    calls = [Outcome(usage, latency_in_seconds=0.1), Outcome(kind="timeout", error_type="E", attempts=3), Outcome(None)]
    write(tmp_path, enumerate(calls), "run")
    before, segments = summarize(str(tmp_path)), {p: p.read_bytes() for p in tmp_path.rglob("seg-*")}
    assert compact(str(tmp_path)) == 3
    for path, data in segments.items():  # as if the process had been killed before it deleted them
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    write(tmp_path, [(0, Outcome("again")), (7, Outcome("new"))], "later")
    found = summarize(str(tmp_path))
    assert (before.attempts, found.attempts) == (5, 7)
    assert (found.input_tokens, found.latency) == (before.input_tokens, before.latency)
    assert compact(str(tmp_path)) == 5
    assert list_segments(str(tmp_path)) == {}
