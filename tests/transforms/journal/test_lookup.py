"""A journal's answers are found again whatever their size, and only a bounded part of them is in memory."""

import random
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.calls import Call, Outcome
from evalbeam.transforms.journal import lookup, segments
from evalbeam.transforms.journal.journal import Journal, compact
from evalbeam.transforms.journal.lookup import Lookup
from evalbeam.transforms.journal.segments import encode_record, read_pieces

KINDS = st.sampled_from(["ok", "permanent", "transient"])
WRITTEN = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["mine", "theirs"]), KINDS, st.integers(0, 300)), max_size=40
)


@given(
    files=st.lists(WRITTEN, max_size=3),
    asked=st.lists(st.integers(0, 9)),
    piece=st.integers(1, 3000),
    most=st.integers(0, 5000),
)
def test_the_first_record_that_is_wanted_is_found(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple]], asked: list[int], piece: int, most: int
) -> None:
    folder, expected = tmp_path_factory.mktemp("journal"), {}
    for n, records in enumerate(files):
        outcomes = [
            (str(key), run, Outcome(f"{n}.{i}" + "x" * size, kind) if kind == "ok" else Outcome(kind=kind, attempts=i))
            for i, (key, run, kind, size) in enumerate(records)
        ]
        (folder / f"seg-{n}").write_bytes(b"".join(encode_record(*record) for record in outcomes))
        for key, run, outcome in outcomes:
            if run == "mine" or outcome.kind != "transient":
                expected.setdefault(key, replace(outcome, replayed=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "PIECE", piece)
        patch.setattr(lookup, "MOST", most)
        sources = [found for n in range(len(files)) for found in read_pieces(str(folder / f"seg-{n}"))]
        known = Lookup(iter(sources), lambda run, kind: run == "mine" or kind != "transient")
        for key in map(str, asked):
            assert known.get(key) == expected.get(key)
            assert known.held <= max([most, *(source.size for source, _, _ in sources)])


def test_a_file_that_changes_meanwhile_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(segments, "PIECE", 1)
    monkeypatch.setattr(lookup, "MOST", 1)
    path = tmp_path / "seg-1"
    path.write_bytes(encode_record("1", "r", Outcome("a")) + encode_record("2", "r", Outcome("b")))
    known = Lookup(read_pieces(str(path)), lambda *_: True)
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"A"'))
    assert known.get("1") is None
    assert known.get("2") == Outcome("b", replayed=True)
    assert "the call is made again" in caplog.text


def write(folder: Path, count: int, size: int, prefixes: int = 1) -> list[Call]:
    journal = Journal(str(folder), "run")
    calls = [Call(f"{i:064x}", None, f"{i % prefixes:02x}") for i in range(count)]
    for i, call in enumerate(calls):
        journal.add(call, Outcome(f"{i} " + "x" * size))
    journal.close()
    return calls


@pytest.mark.parametrize("compacted", [False, True], ids=["segments", "compacted"])
def test_what_is_held_has_a_bound(tmp_path: Path, compacted: bool) -> None:
    """200 MiB in one prefix: 16 MiB stay, 4 are read, an answer or a row group is decoded."""
    calls = write(tmp_path, 2000, 100 << 10)
    if compacted:
        compact(str(tmp_path))
    tracemalloc.start()
    try:
        journal = Journal(str(tmp_path), "another")
        for i, call in enumerate(calls):
            found = journal.find(call)
            assert str(found and found.value).startswith(f"{i} x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


RESUME = """
import resource, sys
from evalbeam.schemas.calls import Call
from evalbeam.transforms.journal.journal import Journal, compact
count, size = int(sys.argv[2]), int(sys.argv[3])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
journal = Journal(sys.argv[1], "another")
for i in range(count):
    found = journal.find(Call(f"{i:064x}", None, f"{i % 4:02x}"))
    assert found is not None and found.value.startswith(f"{i} x") and len(found.value) > size
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_gigabyte_of_large_answers_is_found_again_in_a_fifth_of_it(tmp_path: Path) -> None:
    """256 answers of 4 MiB in four prefixes, each of which holds 16 MiB."""
    write(tmp_path, 256, 4 << 20, prefixes=4)
    command = [sys.executable, "-c", RESUME, str(tmp_path), "256", str(4 << 20)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) * 1024 < 200 << 20


def test_an_order_of_its_own_costs_time_not_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "PIECE", 1 << 10)
    monkeypatch.setattr(lookup, "MOST", 4 << 10)
    calls = write(tmp_path, 500, 100)
    journal = Journal(str(tmp_path), "another")
    order = list(range(500))
    random.Random(7).shuffle(order)
    for i in order:
        assert journal.find(calls[i]) == Outcome(f"{i} " + "x" * 100, replayed=True)
