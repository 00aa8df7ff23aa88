"""Paired benchmark of the 16-metric bundle: rows a second and core, beside rouge-score and sacrebleu row by row.

    python tests/benchmarks/bench_text.py [rounds]

The corpus is prose that Python itself ships (`pydoc_data.topics`), cut into references of about 66 and 600 ROUGE
tokens; a response is its reference with a quarter of the words changed and sentences dropped or swapped. Every row
also carries two trajectories; its texts are no tool calls, and that is what the tool-call metrics find. Both sides
start from JSON lines and end with one list of values for each metric, which must be equal. Times are CPU seconds of
this process; the sides alternate, medians count.
"""

from __future__ import annotations

import gc
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pydoc_data.topics import topics
from typing import Any

from evalbeam.schemas.instance import Example, Instance, Invocation, ToolCall
from evalbeam.transforms import registry
from evalbeam.transforms.metrics.base import Metric, ScoringBatch

TEXT = ("exact_match", "bleu", "rouge_1", "rouge_2", "rouge_l", "rouge_l_sum")
TRAJECTORY = (
    "trajectory_exact_match",
    "trajectory_in_order_match",
    "trajectory_any_order_match",
    "trajectory_precision",
    "trajectory_recall",
    "trajectory_single_tool_use",
)
TOOL = ("tool_call_valid", "tool_name_match", "tool_parameter_key_match", "tool_parameter_kv_match")
PARAMS: dict[str, dict[str, Any]] = {
    **{name: {"use_stemmer": True} for name in TEXT if name.startswith("rouge")},
    "trajectory_single_tool_use": {"tool_name": "search"},
}


def sentences() -> list[str]:
    """Sentences of Python's own documentation, marked-up paragraphs and code left out."""
    found: list[str] = []
    for name in sorted(topics):
        for paragraph in re.split(r"\n\s*\n", topics[name]):
            words = " ".join(paragraph.split())
            if len(words) > 60 and words[0].isupper() and words[-1] in ".:" and "::=" not in words:
                found += re.split(r"(?<=[.:;]) (?=[A-Z])", words)
    return found


def corpus(tokens: int, rows: int, seed: int) -> list[tuple[str, str]]:
    """(response, reference) pairs of about so many tokens, about 41 tokens a line."""
    rng, pool = random.Random(seed), sentences()
    pairs = []
    for _ in range(rows):
        picked, count, at = [], 0, rng.randrange(len(pool))
        while count < tokens:
            picked.append(pool[at % len(pool)])
            count += len(re.findall("[a-z0-9]+", picked[-1].lower()))
            at += 1
        pairs.append((_lines(_edited(picked, pool, rng)), _lines(picked)))
    return pairs


def _edited(picked: list[str], pool: list[str], rng: random.Random) -> list[str]:
    kept = [s for s in picked if rng.random() > 0.1] or picked
    if len(kept) > 1:
        at = rng.randrange(len(kept) - 1)
        kept[at], kept[at + 1] = kept[at + 1], kept[at]
    other = rng.choice(pool).split()
    return [" ".join(rng.choice(other) if rng.random() < 0.25 else word for word in s.split()) for s in kept]


def _lines(picked: list[str]) -> str:
    lines: list[str] = [""]
    for sentence in picked:
        if len(lines[-1].split()) > 28:
            lines.append("")
        lines[-1] = f"{lines[-1]} {sentence}".strip()
    return "\n".join(lines)


def _calls(rng: random.Random) -> list[dict[str, Any]]:
    names = ("search", "open_page", "book_flight", "send_mail")
    return [
        {"tool_name": rng.choice(names), "tool_input": {"query": rng.choice(names), "limit": rng.randrange(3)}}
        for _ in range(rng.randrange(1, 6))
    ]


def json_lines(pairs: list[tuple[str, str]]) -> list[bytes]:
    """The rows as a dataset would hold them."""
    rng = random.Random(7)
    rows = []
    for response, reference in pairs:
        row = {"response": response, "reference": reference}
        row |= {"predicted_trajectory": _calls(rng), "reference_trajectory": _calls(rng)}
        rows.append(json.dumps(row).encode())
    return rows


def examples(rows: list[bytes]) -> list[Example]:
    """The rows as metrics see them."""
    import orjson

    found = []
    for i, line in enumerate(rows):
        row = orjson.loads(line)
        calls = tuple(ToolCall(c["tool_name"], c["tool_input"]) for c in row.pop("predicted_trajectory"))
        found.append(
            Example(Instance(str(i), row), Invocation(response=row.pop("response"), predicted_trajectory=calls))
        )
    return found


def build(names: tuple[str, ...]) -> list[Metric]:
    """The metrics of the bundle."""
    return [registry.build(registry.find("metric", name), PARAMS.get(name, {}), name) for name in names]


def ours(rows: list[bytes], metrics: list[Metric], size: int) -> list[list[float | None]]:
    """Values of each metric, by batches of `size` rows."""
    columns: list[list[float | None]] = [[] for _ in metrics]
    for begin in range(0, len(rows), size):
        batch = ScoringBatch(examples(rows[begin : begin + size]))
        for column, metric in zip(columns, metrics, strict=True):
            column += metric.score_batch(batch).values
    return columns


def naive(rows: list[bytes], others: list[Metric]) -> list[list[float | None]]:
    """The text metrics by their reference libraries, the others by `score`, row by row."""
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

    types = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer, bleu = RougeScorer(types, use_stemmer=True), BLEU(tokenize="intl", effective_order=False, force=True)
    columns: list[list[float | None]] = [[] for _ in range(6 + len(others))]
    for line in rows:
        (row,) = examples([line])
        response, reference = row.get("response"), row.get("reference")
        scores = scorer.score(reference, response)
        values = [float(response == reference), min(bleu.corpus_score([response], [[reference]]).score / 100, 1.0)]
        values += [scores[kind].fmeasure for kind in types]
        for column, value in zip(columns, values + [metric.score(row).value for metric in others], strict=True):
            column.append(value)
    return columns


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds, result)."""
    begin = time.process_time()
    result = run()
    return time.process_time() - begin, result


def compare(tokens: int, rows: int, sample: int, rounds: int) -> None:
    """Prints medians for one corpus."""
    lines = json_lines(corpus(tokens, rows, seed=tokens))
    text, bundle = build(TEXT), build((*TEXT, *TRAJECTORY, *TOOL))
    assert ours(lines[:sample], bundle, 256) == naive(lines[:sample], bundle[6:])
    ratios, fast, parts = [], [], []
    for _ in range(rounds):
        slow, _ = cpu(lambda: naive(lines[:sample], bundle[6:]))
        quick, _ = cpu(lambda: ours(lines, bundle, 1024))
        alone, _ = cpu(lambda: ours(lines, text, 1024))
        fast.append(quick / rows)
        parts.append(alone / rows)
        ratios.append(slow / sample / (quick / rows))
    words = sum(len(re.findall("[a-z0-9]+", json.loads(x)["reference"].lower())) for x in lines) / rows
    row = statistics.median(fast)
    print(f"{words:5.0f} words: 16 metrics {1e6 * row:7.1f} us/row = {1 / row:7.0f} rows/s/core, ", end="")
    print(f"6 text metrics {1e6 * statistics.median(parts):7.1f} us/row; {statistics.median(ratios):6.1f} x row by row")
    split(lines, rows)


def split(lines: list[bytes], rows: int) -> None:
    """Prints the time of each metric, in order, each sharing what those before it worked out."""
    spent: dict[str, float] = {}
    spent["decode"], found = cpu(lambda: examples(lines))
    for begin in range(0, rows, 1024):
        batch = ScoringBatch(found[begin : begin + 1024])
        for name, metric in zip((*TEXT, *TRAJECTORY, *TOOL), build((*TEXT, *TRAJECTORY, *TOOL)), strict=True):
            seconds, _ = cpu(lambda m=metric, b=batch: m.score_batch(b))
            spent[name] = spent.get(name, 0.0) + seconds
    print("      " + ", ".join(f"{name} {1e6 * seconds / rows:.1f}" for name, seconds in spent.items()))


if __name__ == "__main__":
    gc.set_threshold(200_000, 50, 50)  # as the pipeline's bulk steps do
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    compare(58, 4096, 256, given)
    compare(600, 1024, 8, given)
