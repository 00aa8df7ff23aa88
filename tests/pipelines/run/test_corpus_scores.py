"""Scores of all rows together: corpus BLEU of sacrebleu, F1 of all calls and words, their slices and intervals."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sklearn.metrics import f1_score

from evalbeam import evaluate

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "house", "quickly", "and", "then", "slept"]


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(3, 14))) + "."


def changed(text: str, rng: random.Random) -> str:
    return " ".join(w if rng.random() < 0.8 else rng.choice(WORDS) for w in text.split())


def rows(number: int = 300) -> list[dict[str, Any]]:
    rng, found = random.Random(0), []
    for i in range(number):
        wanted = sentence(rng)
        calls = [{"tool_name": rng.choice("abcd"), "tool_input": {}} for _ in range(rng.randint(0, 4))]
        made = [call for call in calls if rng.random() < 0.7] + [{"tool_name": "e", "tool_input": {}}] * (i % 3 == 0)
        row = {"prompt": str(i), "reference": wanted, "response": changed(wanted, rng), "g": i % 2}
        found.append({**row, "reference_trajectory": calls, "predicted_trajectory": made})
    return found


ROWS = rows()


def run(output: Path, metrics: list[Any], given: list[dict[str, Any]] = ROWS, **options: Any) -> Any:
    return evaluate(given, metrics, output=output, slices=["g"], **options)


def cells(found: Any, metric: str) -> dict[str, dict[str, Any]]:
    table = found.summary_table
    return {json.dumps(r["slice"]): r for r in table[table["metric"] == metric].to_dict("records")}


@pytest.mark.parametrize("options", [{}, {"smooth": "floor", "tokenize": "13a"}, {"lowercase": True}])
def test_corpus_bleu_is_sacrebleu_s(tmp_path: Path, options: dict[str, Any]) -> None:
    found = cells(run(tmp_path / "out", [{"metric": "bleu", "corpus": True, **options}]), "bleu/corpus")
    names = {"smooth": "smooth_method"}
    given = {"tokenize": "intl", **{names.get(key, key): value for key, value in options.items()}}
    for slice_, part in (("{}", ROWS), ('{"g": "0"}', ROWS[::2]), ('{"g": "1"}', ROWS[1::2])):
        expected = BLEU(**given).corpus_score([r["response"] for r in part], [[r["reference"] for r in part]])
        row = found[slice_]
        assert row["mean"] == pytest.approx(expected.score / 100, rel=1e-12)
        assert row["ci_low"] < row["mean"] < row["ci_high"]
        assert (row["scored_count"], row["ci_method"]) == (len(part), "bootstrap")


def test_the_interval_of_corpus_bleu_is_that_of_sacrebleu_s_bootstrap(tmp_path: Path) -> None:
    row = cells(run(tmp_path / "out", [{"metric": "bleu", "corpus": True}]), "bleu/corpus")["{}"]
    bleu, rng = BLEU(tokenize="intl"), np.random.default_rng(0)
    pairs = [(r["response"], r["reference"]) for r in ROWS]
    drawn = []
    for _ in range(200):
        picked = [pairs[i] for i in rng.integers(0, len(pairs), len(pairs))]
        drawn.append(bleu.corpus_score([p[0] for p in picked], [[p[1] for p in picked]]).score / 100)
    assert row["se"] == pytest.approx(np.std(drawn, ddof=1), rel=0.15)


def test_f1_of_all_calls(tmp_path: Path) -> None:
    """Each call that is wanted or made is a case, true if wanted, positive if made; scikit-learn counts them."""
    named = {"metric": "trajectory_f1", "corpus": True, "args": "ignore", "matching": "one_to_one"}
    row = cells(run(tmp_path / "out", [named], criteria={"trajectory_f1/corpus": 0.5}), "trajectory_f1/corpus")["{}"]
    wanted, made = [], []
    for r in ROWS:
        sides = [[call["tool_name"] for call in r[f"{side}_trajectory"]] for side in ("reference", "predicted")]
        for name in "abcde":
            counts = [side.count(name) for side in sides]
            for i in range(max(counts)):
                wanted.append(i < counts[0])
                made.append(i < counts[1])
    assert row["mean"] == pytest.approx(f1_score(wanted, made), rel=1e-12)
    assert row["verdict"] == "PASSED"


def test_f1_of_all_words(tmp_path: Path) -> None:
    found = run(tmp_path / "out", [{"metric": "rouge_1", "corpus": True}])
    row, table = cells(found, "rouge_1/corpus")["{}"], found.metrics_table
    lengths = [(len(r["response"].rstrip(".").split()), len(r["reference"].rstrip(".").split())) for r in ROWS]
    hits = sum(round(d["precision"] * ours) for d, (ours, _) in zip(_details(table), lengths_by_id(table), strict=True))
    assert row["mean"] == pytest.approx(2 * hits / sum(a + b for a, b in lengths), rel=1e-9)


def _details(table: Any) -> list[dict[str, float]]:
    return [json.loads(d) if isinstance(d, str) else d for d in table["rouge_1/details"]]


def lengths_by_id(table: Any) -> list[tuple[int, int]]:
    pairs = zip(table["response"], table["reference"], strict=True)
    return [(len(a.rstrip(".").split()), len(b.rstrip(".").split())) for a, b in pairs]


def test_tables_do_not_depend_on_order_or_shards(tmp_path: Path) -> None:
    metrics = [{"metric": name, "corpus": True} for name in ("bleu", "rouge_l", "trajectory_f1")]
    tables = []
    for seed, shards in enumerate((1, 4, 16)):
        given = random.Random(seed).sample(ROWS, len(ROWS))
        found = run(tmp_path / str(seed), metrics, given, shards=shards, statistics={"ci": "bootstrap"})
        tables.append(Path(found.files("summary")[0]).read_bytes())
    assert tables[0] == tables[1] == tables[2]


def test_tables_do_not_depend_on_worker_processes(tmp_path: Path) -> None:
    metrics = [{"metric": name, "corpus": True} for name in ("bleu", "trajectory_f1")]
    engines = [], ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    runs = [run(tmp_path / str(i), metrics, options=flags, shards=8) for i, flags in enumerate(engines)]
    tables = [Path(one.files("summary")[0]).read_bytes() for one in runs]
    assert tables[0] == tables[1]


def test_a_slice_without_scores_has_null(tmp_path: Path) -> None:
    bare = {"prompt": "p", "response": "r", "g": 2}
    found = run(tmp_path / "out", [{"metric": "bleu", "corpus": True}], [*ROWS, bare])
    row = cells(found, "bleu/corpus")['{"g": "2"}']
    assert (row["row_count"], row["scored_count"], np.isnan(row["mean"])) == (1, 0, True)
