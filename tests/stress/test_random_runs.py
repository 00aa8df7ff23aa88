"""Random runs, to which random things happen, one after the other for some minutes."""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from killing import Server
from scenes import played

pytestmark = pytest.mark.stress


def test_whatever_happens_to_a_run_nothing_is_lost_wrong_or_hangs(
    parameter: dict[str, int | None], server: Server, tmp_path: Path
) -> None:
    given, end = parameter["SEED"], time.monotonic() + 60 * (parameter["MINUTES"] or 0)
    kills, damaged, rows, repeats, runs = Counter[str](), Counter[str](), 0, 0, 0
    for seed in itertools.count(random.randrange(1_000_000) if given is None else given):
        folder = tmp_path / str(seed)
        try:
            scene = played(seed, folder, server)
        except BaseException:
            print(f"\nfailed, and is played again by: make stress SEED={seed}   (its folder: {folder})", flush=True)
            raise
        shutil.rmtree(folder)
        kills, damaged, runs = kills + scene.kills, damaged + scene.damaged, runs + 1
        rows, repeats = rows + scene.bench.rows, repeats + max(0, server.repeats())
        print(f"seed {seed}: {scene.bench.rows} rows, {dict(scene.kills)}, {dict(scene.damaged)}", flush=True)
        if given is not None or time.monotonic() > end:
            break
    print(
        f"{runs} runs of {rows:,} rows; {kills.total()} times: {dict(kills)}; files: {dict(damaged)}; {repeats} repeats"
    )
