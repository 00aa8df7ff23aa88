"""What a step shuffles comes back as it was, from memory or from a file, in any order."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.batch import compress, decompress
from evalbeam.transforms.runtime.spill import Spill, SpillWriter

VALUES = st.lists(st.binary(max_size=300), max_size=20)


@given(VALUES, st.integers(0, 2000), st.randoms(use_true_random=False))
def test_every_value_comes_back(values: list[bytes], held: int, random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spill = Spill(folder, held)
        with closing(SpillWriter(spill)) as one, closing(SpillWriter(spill)) as other:
            sent = [((one, other)[i % 2].put(value), value) for i, value in enumerate(values)]
        random.shuffle(sent)
        assert [decompress(spill.fetch(shuffled)) for shuffled, _ in sent] == [value for _, value in sent]


def test_beyond_the_bound_only_references_are_shuffled(tmp_path: Path) -> None:
    raw = [bytes([i]) * 10_000 for i in range(20)]
    values = [compress(value, fast=True) for value in raw]
    spill = Spill(str(tmp_path / "new"), held=sum(map(len, values[:10])))
    with closing(SpillWriter(spill)) as writer:
        shuffled = [writer.put(value) for value in raw]
    assert shuffled[:10] == values[:10]
    assert {len(value) for value in shuffled[10:]} == {56}
    assert sum(file.stat().st_size for file in (tmp_path / "new").iterdir()) == sum(map(len, values[10:]))


def test_without_a_folder_all_bytes_are_shuffled() -> None:
    assert SpillWriter(Spill()).put(b"abc" * 1000) == compress(b"abc" * 1000)
    assert Spill().fetch(compress(b"abc")) == compress(b"abc")
