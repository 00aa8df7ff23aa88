"""Records of a journal's segments are read up to the first bad one, whatever the pieces they are read in."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.calls import Outcome
from evalbeam.transforms.journal import segments
from evalbeam.transforms.journal.segments import (
    OPEN,
    Torn,
    encode_record,
    list_segments,
    log,
    open_segment,
    read_pieces,
    read_records,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
OUTCOMES = st.one_of(
    st.builds(Outcome, value=JSON, latency_in_seconds=st.floats(0, 100), attempts=st.integers(1, 9)),
    st.builds(
        Outcome,
        value=st.none() | st.just({"usage": {"input_tokens": 7, "output_tokens": None}}),
        kind=st.sampled_from(["transient", "permanent", "timeout"]),
        error_type=st.just("E"),
        error_message=st.text("ab\n"),
    ),
)
RECORDS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), OUTCOMES), max_size=5)
SIZES = st.sampled_from([1, 7, 100, 1000, 1 << 20])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("journal") / "seg-1"


def read(path: Path, data: bytes, piece: int = 1 << 20) -> tuple[list[segments.Record], list[Torn]]:
    """What is found in a segment that holds some bytes, and what is reported of it."""
    path.write_bytes(data)
    torn: list[Torn] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "PIECE", piece)
        return list(read_records(str(path), torn.append)), torn


@given(records=RECORDS, data=st.data(), piece=SIZES)
@pytest.mark.parametrize("ending", ["", OPEN])
def test_a_torn_segment_is_read_up_to_its_first_bad_record(
    path: Path, ending: str, records: list[tuple[str, Outcome]], data: st.DataObject, piece: int
) -> None:
    path = path.with_name(path.name + ending)
    texts = [encode_record(key, "run", outcome) for key, outcome in records]
    whole = b"".join(texts)
    expected = [(key, "run", replace(outcome, replayed=True)) for key, outcome in records]
    assert read(path, whole, piece) == (expected, [])
    cut = data.draw(st.integers(0, len(whole)))
    good = sum(sum(map(len, texts[: i + 1])) <= cut for i in range(len(texts)))
    end = sum(map(len, texts[:good]))
    assert read(path, whole[:cut], piece) == (
        expected[:good],
        [] if cut == end else [Torn(str(path), end, damaged=not ending)],
    )


@given(outcomes=st.lists(OUTCOMES, min_size=1, max_size=3), data=st.data(), piece=SIZES)
def test_a_changed_byte_never_changes_an_answer(
    path: Path, outcomes: list[Outcome], data: st.DataObject, piece: int
) -> None:
    texts = [encode_record(str(i), "run", outcome) for i, outcome in enumerate(outcomes)]
    whole = bytearray(b"".join(texts))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    hit = next(i for i in range(len(texts)) if at < sum(map(len, texts[: i + 1])))
    expected = [(str(i), "run", replace(outcome, replayed=True)) for i, outcome in enumerate(outcomes)]
    damage = Torn(str(path), sum(map(len, texts[:hit])), damaged=True)
    # all: a digit of a length or checksum in the other case
    assert read(path, bytes(whole), piece) in ((expected[:hit], [damage]), (expected, []))


def test_damage_before_the_end_is_told_of_a_segment_that_is_open_too(path: Path) -> None:
    open_ = path.with_name("seg-2" + OPEN)
    one, two = encode_record("1", "run", Outcome("a")), encode_record("2", "run", Outcome("b"))
    found, torn = read(open_, one + two[:-3] + b"###" + one)
    assert ([key for key, _, _ in found], torn) == (["1"], [Torn(str(open_), len(one), damaged=True)])
    assert read(open_, one + b"\0" * 4096)[1] == [Torn(str(open_), len(one), damaged=True)]


@given(sizes=st.lists(st.integers(0, 400), max_size=30), piece=st.integers(1, 2000), start=st.integers(0, 30))
def test_pieces_are_the_segment(path: Path, sizes: list[int], piece: int, start: int) -> None:
    texts = [encode_record(str(i), "run", Outcome("x" * size)) for i, size in enumerate(sizes)]
    path.write_bytes(b"".join(texts))
    begin = sum(map(len, texts[:start]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "PIECE", piece)
        found = list(read_pieces(str(path), start=begin))
    keys = []
    for place, loaded, heads in found:
        assert (place.offset, place.load(), place.size) == (begin, loaded, len(loaded))
        assert len(loaded) < 2 * max([piece, *map(len, texts)])
        begin += place.size
        keys += [place.record(loaded, at)[0] for _, _, _, at in heads]
    assert keys == [str(i) for i in range(start, len(sizes))]
    assert begin == max(path.stat().st_size, begin)


def test_a_record_that_changed_after_it_was_found_is_not_trusted(path: Path) -> None:
    path.write_bytes(encode_record("1", "run", Outcome("a")) + encode_record("2", "run", Outcome("b")))
    [(piece, loaded, heads)] = read_pieces(str(path))
    for changed in (loaded[:-1], loaded.replace(b'"b"', b'"c"')):
        assert piece.record(changed, heads[0][3])[2].value == "a"
        with pytest.raises(ValueError, match="has changed"):
            piece.record(changed, heads[1][3])


def test_a_segment_that_is_renamed_meanwhile_is_still_found(tmp_path: Path) -> None:
    folder = tmp_path / "0a"
    folder.mkdir()
    for name in ("seg-2.open", "seg-1", "seg-3"):
        (folder / name).write_bytes(name.encode())
    found = list_segments(str(tmp_path))
    assert found == {"0a": [str(folder / name) for name in ("seg-1", "seg-2.open", "seg-3")]}
    (folder / "seg-2.open").rename(folder / "seg-2")
    with open_segment(found["0a"][1]) as file:
        assert file.read() == b"seg-2.open"
    with pytest.raises(FileNotFoundError, match="seg-4"):
        open_segment(str(folder / "seg-4.open"))


def test_damage_is_a_warning_what_a_kill_leaves_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log(Torn("gs://b/seg-1", 12345, damaged=True))
        log(Torn("/j/seg-2.open", 0, damaged=False))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        (
            "WARNING",
            "journal segment gs://b/seg-1: bad record at byte 12,345; it and what follows is not read; such calls are "
            "made again",
        ),
        (
            "INFO",
            "journal segment /j/seg-2.open: ends within a record, at byte 0, which is not read; such calls are made "
            "again",
        ),
    ]
